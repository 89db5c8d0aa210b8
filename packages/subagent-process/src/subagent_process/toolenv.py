"""What the tools that a task runs get: a home of their own in which git, uv, npm and cargo still work.

A hermetic run in which ``git commit`` or ``cargo build`` fails is of no use, and one with the person's HOME hands every
token in it to whatever the task runs.  So tools get a HOME of their own and, by name, what work needs: the tables below
are all of it.

It stops *implicit* use only.  Absolute paths stay readable, ``ssh`` without git finds the keys of the account whatever
HOME says, and so do programs that ask the account for its home (the JVM: hence ``MAVEN_OPTS``).  What the repository's
own ``.git/config`` holds, a token in a remote's address too, is the task's.  A mirror of a package index that is
configured in a file is not known to the tools: give it by ``set``.

Trap: npm, yarn, cargo and uv read configuration in the folders *above* the working folder, and no switch turns that
off.  Where the working folder lies below the person's HOME, ``~/.npmrc`` and ``~/.cargo/config.toml`` are among it, and
a token in them is used.  What lies there is named in ``left_out``.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

import anyio.to_thread

from ._identity import configuration, identity
from .environment import child_env
from .home import ThrowawayHome
from .removal import removal_reason

__all__ = ["ToolEnv", "tool_env"]

_FOLDER = "tools"  # below a throwaway home: the engine's own folders are no business of its tools
_TEMPORARY = {"TMPDIR": "tmp", "XDG_CACHE_HOME": "cache", "XDG_RUNTIME_DIR": "run"}
_HOME = {"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state"}
_GITCONFIG = ".gitconfig"

# Beside what `child_env(minimal=True)` passes, unless it carries a credential.
_LISTED = (
    # who the author is, where a person says so by variables
    *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"),
    # which of the installed versions
    *("PYENV_VERSION", "RBENV_VERSION", "NODENV_VERSION", "RUSTUP_TOOLCHAIN", "UV_PYTHON", "GOTOOLCHAIN"),
    # mirrors, and the certificates for them
    *("PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "npm_config_registry", "GOPROXY", "RUSTUP_DIST_SERVER"),
    *("PIP_CERT", "CARGO_HTTP_CAINFO", "NIX_SSL_CERT_FILE"),
)

# Where installed toolchains are: the person's value, else the default below HOME; only when the folder is there.  None
# of them holds credentials.  Not CARGO_HOME, GRADLE_USER_HOME, GEM_HOME, CABAL_DIR, JULIA_DEPOT_PATH: those do.
_TOOLCHAINS: Mapping[str, str | None] = MappingProxyType({
    "RUSTUP_HOME": ".rustup",
    "PYENV_ROOT": ".pyenv",
    "UV_PYTHON_INSTALL_DIR": ".local/share/uv/python",
    "NVM_DIR": ".nvm",
    "FNM_DIR": ".local/share/fnm",
    "VOLTA_HOME": ".volta",
    "NODENV_ROOT": ".nodenv",
    "BUN_INSTALL": ".bun",
    "DENO_INSTALL": ".deno",
    "PNPM_HOME": ".local/share/pnpm",
    "PLAYWRIGHT_BROWSERS_PATH": ".cache/ms-playwright",
    "RBENV_ROOT": ".rbenv",
    "ASDF_DATA_DIR": ".asdf",
    "MISE_DATA_DIR": ".local/share/mise",
    "SDKMAN_DIR": ".sdkman",
    "DOTNET_ROOT": ".dotnet",
    "ELAN_HOME": ".elan",
    "OPAMROOT": ".opam",
    "GOROOT": None,
    "JAVA_HOME": None,
    "ANDROID_HOME": None,
    "HOMEBREW_PREFIX": None,
    "HOMEBREW_CELLAR": None,
    "HOMEBREW_REPOSITORY": None,
})  # fmt: skip

# What would be below the person's HOME, where a sandbox lets nobody write: below the tools' cache folder.
_CACHES: Mapping[str, str] = MappingProxyType({
    "UV_CACHE_DIR": "uv",
    "PIP_CACHE_DIR": "pip",
    "npm_config_cache": "npm",
    "YARN_CACHE_FOLDER": "yarn",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "DENO_DIR": "deno",
    "GOPATH": "go",
    "GOCACHE": "go-build",
    "GOMODCACHE": "go-mod",
    "NUGET_PACKAGES": "nuget",
    "PUB_CACHE": "pub",
})  # fmt: skip

# Cache and credentials in one folder: private too, but for `real`.
_PRIVATE: Mapping[str, str] = MappingProxyType({
    "CARGO_HOME": "cargo",
    "GRADLE_USER_HOME": "gradle",
    "COMPOSER_HOME": "composer",
    "BUNDLE_USER_HOME": "bundle",
})  # fmt: skip

# What these look for in every folder above the working folder, be it HOME: npm, yarn 1, yarn, cargo (twice), uv.
_ABOVE = (".npmrc", ".yarnrc", ".yarnrc.yml", ".cargo/config.toml", ".cargo/config", "uv.toml")

_GIT = {"GIT_TERMINAL_PROMPT": "0"}
_GIT_ALONE = {
    "GIT_CONFIG_NOSYSTEM": "1",
    # ssh takes the account's home and not HOME.  `IdentitiesOnly` would still offer ~/.ssh/id_*.
    "GIT_SSH_COMMAND": "ssh -F /dev/null -o IdentityFile=none -o IdentityAgent=none -o PubkeyAuthentication=no"
    " -o BatchMode=yes",
    "PIP_CONFIG_FILE": os.devnull,  # of the machine and of the person, both
    "npm_config_globalconfig": os.devnull,  # <prefix>/etc/npmrc: below the person's HOME with nvm
}
_OF_THE_PERSON = (*_HOME, *_PRIVATE, "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_JVM = ("MAVEN_OPTS", "SBT_OPTS")  # the JVM takes the account's home and not HOME: ~/.m2/settings.xml


@dataclass(frozen=True)
class ToolEnv:
    """What tools get.

    Attributes:
        variables: the whole environment of a tool; not in the repr.
        writable: the folders outside of the working folder that a sandbox has to open for writing.
        left_out: each name that was not passed and why: a ``Reason``, ``"unlisted"``, ``"own"`` (it has another value
            here), ``"no folder"`` (a toolchain that was named and is not there) or ``"unknown"`` (``user.name`` and
            ``user.email`` where git knows none: commits will be refused by git).  Never a value.  And the path of each
            file that is *not* kept from the tools, as ``"above"``: a configuration of npm, yarn, cargo or uv in a
            folder above the working folder, with whatever credential is in it.
    """

    variables: Mapping[str, str] = field(repr=False)
    writable: tuple[Path, ...]
    left_out: Mapping[str, str]


async def tool_env(
    cwd: str | os.PathLike[str],
    home: ThrowawayHome | str | os.PathLike[str],
    *,
    real: bool = False,
    set: Mapping[str, str] = MappingProxyType({}),  # noqa: A002 - the word of `child_env`
    ambient: Mapping[str, str] | None = None,
) -> ToolEnv:
    """The environment of the tools of one task, and the folders for it.

    Tools get the person's PATH (as ``child_env`` cuts it), language, terminal, proxies and certificates, installed
    toolchains where they are, a git configuration with ``user.name``, ``user.email``, ``safe.directory`` and
    ``init.defaultBranch`` alone, and empty HOME, TMPDIR, XDG and cache folders.  No credential
    that lies in the person's HOME is found by git, npm, pip, uv, cargo, gh, aws or curl, but for a configuration of
    npm, yarn, cargo or uv that lies above the working folder: ``left_out`` names it.

    Args:
        cwd: the working folder: git is asked there who the person is.
        home: a throwaway home, in which the folder ``tools`` is used; or a folder for the tools alone, which is made
            when missing, and in which an earlier run's caches are found again; not a link itself.
        real: give tools the person's own HOME instead, with the git, ssh, cargo, pip, npm and XDG configuration in it.
            **Every token, key and cookie that lies there can then be used and sent away by whatever the task runs**,
            and its start-up files run in shells.  Temporary and cache folders stay private, so that a sandbox need
            not open any of it.
        set: what configuration adds; wins over everything but the depth.
        ambient: instead of this process's environment.

    Raises:
        OSError: a folder or the configuration could not be written (FileNotFoundError: the throwaway home has been
            removed, with the process that it was handed to, say); also where an earlier run's task left a link in
            the place of one of the folders.  Links deeper in a folder that lasts are not looked for.
        ValueError: a path with a NUL in it.

    Git is given 5 s, and its absence or failure means no identity, never an error.  Cancelled, it leaves at most empty
    folders and git's file behind.
    """
    ambient = dict(os.environ if ambient is None else ambient)
    person = ambient.get("HOME") or _account_home()
    root = home.root / _FOLDER if isinstance(home, ThrowawayHome) else Path.cwd() / home
    who = await identity(os.fspath(cwd), _asking(ambient, person), person)
    lasting = not isinstance(home, ThrowawayHome)
    await anyio.to_thread.run_sync(_fill, root, None if real else configuration(who.settings), lasting)
    # In a thread that may be left behind: toolchains, PATH and what is above may lie where nobody answers (NFS).
    put = partial(_put_together, os.fspath(cwd), root, person, who.known, real, set, ambient)
    return await anyio.to_thread.run_sync(put, abandon_on_cancel=True)


def _put_together(
    cwd: str,
    root: Path,
    person: str | None,
    known: frozenset[str],
    real: bool,
    chosen: Mapping[str, str],
    ambient: Mapping[str, str],
) -> ToolEnv:
    toolchains, missing = _toolchains(ambient, person)
    own = _listed(ambient) | _paths(root, _TEMPORARY) | _paths(root / "cache", _CACHES) | toolchains | _GIT
    own |= ({"HOME": person} if person else {}) if real else _alone(root)
    base = {name: value for name, value in ambient.items() if name not in ("TMP", "TEMP")}  # TMPDIR is what counts
    passing = _OF_THE_PERSON if real else ()
    variables = {"PATH": os.defpath} | child_env(minimal=True, passing=passing, set={**own, **chosen}, ambient=base)
    left_out = _left_out(ambient, variables) | dict.fromkeys(missing, "no folder")
    left_out |= dict.fromkeys({"user.name", "user.email"} - known, "unknown")
    left_out |= {} if real else dict.fromkeys(_above(cwd, person), "above")
    return ToolEnv(MappingProxyType(variables), (root,), MappingProxyType(left_out))


def _listed(ambient: Mapping[str, str]) -> dict[str, str]:
    return {n: ambient[n] for n in _LISTED if n in ambient and removal_reason(n, ambient[n]) is None}


def _account_home() -> str | None:
    with suppress(ImportError, KeyError):  # Windows; a container's user without an account
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    return None


def _asking(ambient: Mapping[str, str], person: str | None) -> dict[str, str]:
    """What git gets that is asked for the identity: the person's own configuration, wherever it is."""
    env = child_env(minimal=True, passing=_OF_THE_PERSON, ambient=ambient)
    return {"PATH": os.defpath} | env | ({"HOME": person} if person else {})


def _fill(root: Path, gitconfig: bytes | None, lasting: bool) -> None:
    """Make the folders, and git's file in one.  A task of an earlier run may have put a link or a pipe in the place."""
    # A throwaway home may have gone with its process by now, and is not made again.
    root.mkdir(mode=0o700, parents=lasting, exist_ok=True)
    with _folder(root) as top:
        for name in (*_TEMPORARY.values(), *_HOME.values(), *_PRIVATE.values()):
            with suppress(FileExistsError):
                os.mkdir(name, mode=0o700, dir_fd=top)
            with _folder(name, top):
                pass
        with _folder(_HOME["HOME"], top) as home:
            with suppress(FileNotFoundError):
                os.unlink(_GITCONFIG, dir_fd=home)
            if gitconfig is not None:
                with open(_GITCONFIG, "xb", opener=partial(os.open, mode=0o600, dir_fd=home)) as file:
                    file.write(gitconfig)


@contextmanager
def _folder(path: str | Path, within: int | None = None) -> Generator[int]:
    """A folder that is one, and no link to one."""
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        yield number
    finally:
        os.close(number)


def _paths(root: Path, names: Mapping[str, str]) -> dict[str, str]:
    return {variable: str(root / name) for variable, name in names.items()}


def _toolchains(ambient: Mapping[str, str], person: str | None) -> tuple[dict[str, str], list[str]]:
    found: dict[str, str] = {}
    missing: list[str] = []
    for name, default in _TOOLCHAINS.items():
        given = ambient.get(name)
        path = given or (os.path.join(person, default) if default and person else None)
        if path and os.path.isdir(path):
            found[name] = os.path.abspath(path)
        elif given:
            missing.append(name)
    return found, missing


def _above(cwd: str, person: str | None) -> list[str]:
    here = Path(os.path.realpath(cwd))
    # What lies in the working folder is the task's, unless that is the person's HOME.
    folders = [here, *here.parents] if person and here == Path(os.path.realpath(person)) else here.parents
    return [str(folder / name) for folder in folders for name in _ABOVE if os.path.isfile(folder / name)]


def _alone(root: Path) -> dict[str, str]:
    """What keeps tools from the configuration of the person and of the machine."""
    env = (
        _paths(root, {**_HOME, **_PRIVATE}) | _GIT_ALONE | {"GIT_CONFIG_GLOBAL": str(root / _HOME["HOME"] / _GITCONFIG)}
    )
    if len(str(root).split()) == 1:  # their shell scripts split it at blanks
        env |= dict.fromkeys(_JVM, f"-Duser.home={root / _HOME['HOME']}")
    return env


def _left_out(ambient: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: "own" if name in variables else removal_reason(name, value) or "unlisted"
        for name, value in ambient.items()
        if variables.get(name) != value
    }
