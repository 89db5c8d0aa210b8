"""Remove a throwaway folder: everything in it, and nothing else.

Used by the keeper when its tree is gone and by the library for what no keeper removed.  Rules: only the very folder
that was made (device and inode); no link is followed; no mount is entered (nothing is entered before it was renamed,
and a mount point cannot be); modes are repaired; constant descriptors and no recursion, however deep the tree is,
because each folder that is found is first moved up into the root.
"""

from __future__ import annotations

import os
import sys
import time

_BY_NAME = sys.platform == "darwin"  # no descriptor of a folder without permissions, but a chmod that follows no link
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class _NotOursError(Exception):
    """Another folder, or a link, stands at the path now."""


def remove(path: str | bytes, device: int, inode: int, *, patience: float) -> bool:
    """Remove the folder at path if it is still that very one; True when it is gone.

    Something may still be writing in it: tries again, with back-off, for up to ``patience`` seconds.
    """
    deadline, pause = time.monotonic() + patience, 0.01
    while True:
        try:
            _attempt(path, device, inode)
        except FileNotFoundError:
            return True
        except _NotOursError:
            return False
        except OSError:
            if time.monotonic() + pause > deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.5)


def _attempt(path: str | bytes, device: int, inode: int) -> None:
    """One pass.  Raises FileNotFoundError when the folder is gone, the last refusal when something stays."""
    root = _open(path, device, inode)
    try:
        _empty(root)
    finally:
        os.close(root)
    os.rmdir(path)


def _open(path: str | bytes, device: int, inode: int) -> int:
    """The folder, if it is that very one, with its mode repaired."""
    if _BY_NAME:
        _check(os.lstat(path), device, inode)
        _repair(path)
        root = os.open(path, _FOLDER)
    else:
        handle = _handle(path)
        try:
            _check(os.fstat(handle), device, inode)
            _repair_handle(handle)
            root = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            os.close(handle)
    try:
        _check(os.fstat(root), device, inode)
    except _NotOursError:  # pragma: no cover - it was replaced between two calls
        os.close(root)
        raise
    return root


def _check(found: os.stat_result, device: int, inode: int) -> None:
    if (found.st_dev, found.st_ino) != (device, inode):
        raise _NotOursError


def _repair(name: str | bytes, parent: int | None = None) -> None:
    """Make a folder readable and writable for us, without following a link that has come in its place."""
    if _BY_NAME:
        if os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode & 0o700 != 0o700:
            os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
        return
    handle = _handle(name, parent)
    try:
        _repair_handle(handle)
    finally:
        os.close(handle)


def _handle(name: str | bytes, parent: int | None = None) -> int:
    """A descriptor that needs no permission of the folder itself; refuses a link in its place."""
    return os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)


def _repair_handle(handle: int) -> None:
    if os.fstat(handle).st_mode & 0o700 != 0o700:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)  # fchmod refuses such a descriptor


def _empty(root: int) -> None:
    """Remove what is in the folder; what refuses is passed over, and the last refusal is raised at the end."""
    stamp, moved, refusal = f".removing-{time.monotonic_ns():x}", 0, None
    pending = [""]  # names below root; "" is the root itself
    while pending:
        name = pending.pop()
        folder = os.open(name, _FOLDER, dir_fd=root) if name else os.dup(root)
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        # Moving a folder rewrites its "..", so that it has to be writable itself.
                        _repair(entry.name, folder)
                        moved += 1
                        os.rename(entry.name, f"{stamp}-{moved:x}", src_dir_fd=folder, dst_dir_fd=root)
                        pending.append(f"{stamp}-{moved:x}")
                    else:
                        os.unlink(entry.name, dir_fd=folder)
                except FileNotFoundError:
                    continue  # somebody else removed it: just as well
                except OSError as error:
                    refusal = error
        finally:
            os.close(folder)
        if name:
            try:
                os.rmdir(name, dir_fd=root)
            except OSError as error:
                refusal = error
    if refusal is not None:
        raise refusal
