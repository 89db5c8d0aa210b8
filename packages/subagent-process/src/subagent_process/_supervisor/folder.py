"""Remove a throwaway folder: everything in it, and nothing else.

Used by the keeper when its tree is gone and by the library for what no keeper removed.  Rules: only the very folder
that was made (device and inode); no link is followed; no mount is entered (nothing is entered before it was renamed,
and a mount point cannot be); modes are repaired; constant descriptors and no recursion, however deep the tree is,
because each folder that is found is first moved up into the root.
"""

from __future__ import annotations

import os
import stat
import time


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
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or (found.st_dev, found.st_ino) != (device, inode):
        raise _NotOursError
    _repair(None, path, found.st_mode)
    root = _open(path)
    try:
        opened = os.fstat(root)
        if (opened.st_dev, opened.st_ino) != (device, inode):
            raise _NotOursError
        _empty(root)
    finally:
        os.close(root)
    os.rmdir(path)


def _repair(parent: int | None, name: str | bytes, mode: int) -> None:
    """Make a folder readable and writable for us; a link that took its place meanwhile is refused, not followed."""
    if mode & 0o700 != 0o700:
        fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(
                f"/proc/self/fd/{fd}", 0o700
            )  # fchmod refuses an O_PATH descriptor, and a real one needs read permission
        finally:
            os.close(fd)


def _open(name: str | bytes, parent: int | None = None) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)


def _empty(root: int) -> None:
    """Remove what is in the folder; what refuses is passed over, and the last refusal is raised at the end."""
    stamp, moved, refusal = f".removing-{time.monotonic_ns():x}", 0, None
    pending = [""]  # names below root; "" is the root itself
    while pending:
        name = pending.pop()
        folder = _open(name, root) if name else os.dup(root)
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        # Moving a folder rewrites its "..", so that it has to be writable itself.
                        _repair(folder, entry.name, entry.stat(follow_symlinks=False).st_mode)
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
