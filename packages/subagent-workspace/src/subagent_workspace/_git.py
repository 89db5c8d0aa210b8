"""Git, asked and never trusted: nothing that a repository's configuration or attributes name is run.

Every look at a repository goes through ``open_repository``, which reads the names of its settings first.

The traps, each held by a test that shows plain git running the program (2.39):

- ``core.fsmonitor`` runs at every look at the index; so does ``filter.NAME.clean`` or ``.process``, on a file whose
  time has changed.  A driver's name may hold ``=``, so overrides cannot be given with ``-c``.  They are given in
  ``GIT_CONFIG_COUNT`` (git 2.31 and newer); an older git passes over it without a word, which a setting of our own in
  the first answer shows.
- An empty ``core.fsmonitor`` is "off" for every git; ``false`` is a program for one before 2.36.
- A blob that a partial clone lacks is fetched: ``GIT_ALLOW_PROTOCOL`` names a protocol that nobody can guess, for
  an empty list would allow the one without a name.
- A submodule's configuration is run by ``git status`` of the repository around it: ``--ignore-submodules=dirty``.
- Configuration can depend on the git folder and on the branch (``includeIf``): it is read anew for each folder, and
  after HEAD has moved.
- ``core.worktree`` may lead to the root of the disk: a top folder counts only if a ``.git`` lies in it.
- ``git`` itself is searched for: a relative folder in PATH would be one of the repository's.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import anyio

from subagent_process import CommandTimeout, ProcessError, child_env, run_command

_MEBIBYTE: Final = 1024 * 1024
_CANARY: Final = "subagents.canary"
_OVERRIDES: Final = {
    _CANARY: "1",
    "core.fsmonitor": "",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.sshCommand": "",
    "core.askPass": "",
    "credential.helper": "",
    "diff.external": "",
    "diff.orderFile": os.devnull,  # one that cannot be read would be fatal
    "diff.renameLimit": "400",
    "status.renameLimit": "400",
    "log.showSignature": "false",
    "core.safecrlf": "false",  # it refuses files of mixed line ends
    "core.splitIndex": "false",  # it writes beside an index of our own
    "core.ignoreStat": "false",  # it marks what is checked out as never changed
    "diff.submodule": "short",  # any other starts git in the submodule, which has settings of its own
    "sparse.expectFilesOutsideOfPatterns": "false",
    "submodule.recurse": "false",
}
_DRIVER: Final = {"clean": "", "smudge": "", "process": "", "required": "false"}


_HALF_MADE: Final = "/commondir"  # another git makes or removes a worktree at this moment
_AGAIN: Final = (0.02, 0.05, 0.1, 0.2, 0.4)  # s until it is asked again then


class GitError(Exception):
    """Git could not say it: what was asked, and why, for a person to read."""


class Clock:
    """What is left of a time limit, in seconds."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._end = anyio.current_time() + limit

    @property
    def left(self) -> float:
        return max(0.0, self._end - anyio.current_time())


@dataclass(frozen=True, slots=True)
class Repository:
    """One that git reads, as it was configured a moment ago.

    Attributes:
        top: its working tree, without links.
        algorithm: ``"sha1"`` or ``"sha256"``: what its ids are made with.
    """

    top: str
    algorithm: str
    _git: str
    _env: Mapping[str, str]

    def with_env(self, more: Mapping[str, str]) -> Repository:
        """The same, asked with these variables too."""
        return replace(self, _env={**self._env, **more})

    async def ask(self, clock: Clock, *arguments: str, limit: int = 64 * _MEBIBYTE) -> bytes:
        """What ``git ARGUMENTS`` writes, run in the top folder.

        Raises:
            GitError: it failed, took too long, or wrote more than ``limit`` bytes.
        """
        return await _run(clock, self._git, arguments, self.top, self._env, limit)


async def open_repository(folder: str, clock: Clock) -> Repository | None:
    """The repository that has ``folder`` in its working tree; None where there is none.

    Args:
        folder: absolute, without links.
        clock: the time for all of it.

    Raises:
        GitError: there is one that cannot be read, or not safely.
    """
    if not any(map(_holds_something, _traces(folder))):  # most folders without git cost no process
        return None
    git, env = _program()
    names = await _run(clock, git, ("config", "--list", "-z", "--name-only"), folder, env, 8 * _MEBIBYTE)
    settings = os.fsdecode(names).split("\0")
    if _CANARY not in settings:
        raise GitError("this git cannot be told what not to run: 2.31 is the oldest that can")
    env |= _config({**_OVERRIDES, **dict(_without_drivers(settings))})
    questions = ("--is-bare-repository", "--is-inside-work-tree", "--show-object-format", "--show-cdup")
    answer = os.fsdecode(await _run(clock, git, ("rev-parse", *questions), folder, env, _MEBIBYTE))
    bare, inside, algorithm, up = (answer.split("\n", 3) + [""] * 3)[:4]
    if bare == "true" or inside != "true":
        raise GitError(f"{folder} is in a repository but in no working tree of it")
    return Repository(_top(folder, up.removesuffix("\n")), algorithm, git, env)


def _top(folder: str, up: str) -> str:
    top = os.path.normpath(os.path.join(folder, up))
    if not os.path.lexists(os.path.join(top, ".git")):
        raise GitError(f"core.worktree leads to {top}, which has no .git")
    return top


def _traces(folder: str) -> list[str]:
    """What may make a repository of this folder or of one above it."""
    found: list[str] = []
    while True:
        found += [path for path in [os.path.join(folder, ".git")] if os.path.lexists(path)]
        if all(os.path.lexists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs")):
            found.append(folder)
        if (above := os.path.dirname(folder)) == folder:
            return found
        folder = above


def _holds_something(path: str) -> bool:
    """Whether it is more than an empty folder of that name, as sandboxes leave them."""
    try:
        return bool(os.listdir(path))
    except OSError:
        return True


def _program() -> tuple[str, dict[str, str]]:
    """Where git is, and the environment of its first question."""
    env = {name: value for name, value in child_env().items() if not name.startswith("GIT_")}
    folders = [entry for entry in env.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(entry)]
    path = os.pathsep.join(folders)
    if (git := shutil.which("git", path=path)) is None:
        raise GitError(f"there is no git in {path or 'an empty PATH'}")
    env |= {
        "PATH": path,
        "LC_ALL": "C",  # one message is looked for
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",  # else a run could put another commit in the place of one
        "GIT_ALLOW_PROTOCOL": f"none-{secrets.token_hex(8)}",
        "GIT_NO_LAZY_FETCH": "1",  # 2.44 and newer, and later versions of older lines
        "GIT_TERMINAL_PROMPT": "0",
    }
    return git, env | _config(_OVERRIDES)


def _without_drivers(settings: list[str]) -> Iterator[tuple[str, str]]:
    drivers = {name.rpartition(".")[0] for name in settings if name.startswith("filter.") and name.count(".") > 1}
    for driver in sorted(drivers):
        for key, value in _DRIVER.items():
            yield f"{driver}.{key}", value


def _config(settings: Mapping[str, str]) -> dict[str, str]:
    env = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env


async def _run(
    clock: Clock, git: str, arguments: tuple[str, ...], cwd: str, env: Mapping[str, str], limit: int
) -> bytes:
    for wait in _AGAIN:
        try:
            return await _once(clock, git, arguments, cwd, env, limit)
        except GitError as error:
            if _HALF_MADE not in str(error):
                raise
            await anyio.sleep(wait)
    return await _once(clock, git, arguments, cwd, env, limit)


async def _once(
    clock: Clock, git: str, arguments: tuple[str, ...], cwd: str, env: Mapping[str, str], limit: int
) -> bytes:
    asked = f"git {arguments[0]}"
    late = f"{asked} had not ended when the {clock.limit:g} s for it were over"
    if not clock.left:
        raise GitError(late)
    try:
        done = await run_command([git, "--no-pager", *arguments], env=env, cwd=cwd, timeout=clock.left, limit=limit)
    except CommandTimeout:
        raise GitError(late) from None
    except ProcessError as error:
        crowded = getattr(error, "errno", None) == errno.E2BIG
        raise GitError(f"{asked}: more settings than can be overruled" if crowded else f"{asked}: {error}") from error
    if done.exit:
        raise GitError(f"{asked}: {_reason(done.stderr) or f'status {done.exit}'}")
    if done.truncated:
        raise GitError(f"{asked} wrote more than {limit // _MEBIBYTE} MiB")
    return done.stdout


def _reason(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "backslashreplace").splitlines()
    return next((line for line in lines if line.startswith(("fatal: ", "error: "))), "\n".join(lines[-1:]))[:300]
