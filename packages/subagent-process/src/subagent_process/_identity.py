"""Who the person is to git: name, address, and the folders that git may trust; nothing else of their configuration.

Asked of git itself, under the person's own HOME and in the working folder, so that ``includeIf`` is followed.  What the
repository's own configuration says is not taken: git reads it again in there, and its ``safe.directory`` would count
for nothing where it stands and for everything in the file that is written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .command import run_command
from .errors import ProcessError

_PATTERN = r"^(user\.(name|email)|safe\.directory|init\.defaultbranch)$"
_OURS = frozenset({"system", "global", "command"})
_PATIENCE = 5.0  # s for git, which reads a few files
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b"})

Setting = tuple[str, str]


@dataclass(frozen=True)
class Identity:
    """What git answered.

    Attributes:
        settings: of the person and the machine, as ``("user.name", "A")``, in git's order.
        known: every key that is set, in the repository's own configuration too.
    """

    settings: tuple[Setting, ...] = ()
    known: frozenset[str] = frozenset()


async def identity(cwd: str, env: Mapping[str, str], home: str | None) -> Identity:
    """What git says in ``cwd``; nothing when it is not there, or fails, or does not answer in 5 s.

    Args:
        cwd: where git is asked.
        env: the environment that git gets, with the person's HOME.
        home: the person's HOME, for ``~/`` in ``safe.directory``.
    """
    argv = ("git", "config", "--null", "--show-scope", "--get-regexp", _PATTERN)  # --show-scope: git 2.26
    try:
        done = await run_command(argv, env=env, cwd=cwd, timeout=_PATIENCE)
    except ProcessError:
        return Identity()
    if done.exit or done.truncated:
        return Identity()
    # `global NUL user.name LF A NUL`, repeated
    parts = os.fsdecode(done.stdout).split("\0")
    pairs = [(scope, setting.partition("\n")) for scope, setting in zip(parts[::2], parts[1::2], strict=False)]
    found = [(scope, key, value) for scope, (key, _, value) in pairs]
    return Identity(tuple(_ours(found, home)), frozenset(key for _, key, _ in found))


def _ours(found: list[tuple[str, str, str]], home: str | None) -> Iterator[Setting]:
    for scope, key, value in found:
        if scope not in _OURS:
            continue
        if key == "safe.directory" and value.startswith("~/") and home is not None:
            value = os.path.join(home, value[2:])  # in the tools' HOME it would mean another folder
        yield key, value


def configuration(settings: Iterable[Setting]) -> bytes:
    r"""The text of a git configuration file that says so: ``[user]\n\tname = "A"\n`` …, in the same order."""
    return os.fsencode("".join(map(_written, settings)))


def _written(setting: Setting) -> str:
    section, _, name = setting[0].partition(".")
    return f'[{section}]\n\t{name} = "{setting[1].translate(_ESCAPES)}"\n'
