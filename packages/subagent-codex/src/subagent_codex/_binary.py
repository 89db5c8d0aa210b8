"""Which `codex` runs: the configured one, else the bundled one, else the first on PATH; and what a probe finds there.

The native program is taken instead of the npm package's script in front of it where both are there: a killed script
leaves the program behind it running until its input ends.

Layout of a package (observed for the wheel openai-codex-cli-bin 0.163.0 and the npm package @openai/codex 0.163.0): a
folder with `codex-package.json`, `bin/codex`, `codex-path/rg`, `codex-resources/bwrap`. npm puts it into a package of
its own, beside @openai/codex, under `vendor/TARGET`; `bin/codex.js` is the script.
"""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from anyio import to_thread

from subagent_codex._home import inherited
from subagent_codex._methods import PINNED
from subagent_codex._session import sign_in
from subagent_codex.options import CodexOptions
from subagent_process import ProcessError, child_env, redact, run_command, throwaway_home
from subagents import Failure, Probe, StartError
from subagents.backend.programs import on_path, unfit, version_of

Source = Literal["configured", "bundled", "path"]

_SOURCES: Final[Mapping[Source, str]] = {
    "configured": "the configured executable",
    "bundled": "from openai-codex-cli-bin",
    "path": "found on PATH",
}
_TARGETS: Final = {
    "x86_64": ("codex-linux-x64", "x86_64-unknown-linux-musl"),
    "aarch64": ("codex-linux-arm64", "aarch64-unknown-linux-musl"),
}
_INSTALL: Final = "install subagent-codex[cli], or codex itself, or name it as the option executable"
_VERSION: Final = re.compile(rb"codex[!-~]* ([0-9][!-~]{0,49})")
_STATUS_LIMIT: Final = 9.0  # s; a probe has 15 for both
_SAID: Final = 300  # characters of what codex says about its sign-in


@dataclass(frozen=True, slots=True)
class Binary:
    """A `codex` that can be started.

    Attributes:
        path: absolute.
        source: where it was found.
        script: it is no native program: a script or a fake one, perhaps the one of npm.
        path_folder: the tools that come with it, which are all that it needs on PATH; None where there are none.
    """

    path: Path
    source: Source
    script: bool
    path_folder: Path | None

    @property
    def where(self) -> str:
        """The source in words."""
        return _SOURCES[self.source] + (" (a script)" if self.script else "")


async def locate(options: CodexOptions) -> Binary:
    """The `codex` of these options, in a worker thread: a slow disk holds up nobody.

    Raises:
        StartError: of kind `launch`: there is none, or the configured one cannot be started.
    """
    return await to_thread.run_sync(_locate, options.executable, abandon_on_cancel=True)


def _locate(configured: Path | None) -> Binary:
    if configured is not None:
        if why := unfit(configured, "codex"):
            raise StartError(Failure("launch", "start", f"the configured executable {configured} {why}"))
        return _binary(configured, "configured")
    broken = ""
    try:
        import codex_cli_bin  # pyright: ignore[reportMissingTypeStubs]

        return _binary(codex_cli_bin.bundled_codex_path(), "bundled")
    except ImportError:
        pass
    except FileNotFoundError as error:
        broken = f" ({error})"
    if found := [_binary(path, "path") for path in on_path("codex")]:
        return min(found, key=lambda binary: binary.script)  # the first native one, else the first
    raise StartError(Failure("launch", "start", f"codex is neither bundled{broken} nor on PATH: {_INSTALL}"))


def _binary(found: Path, source: Source) -> Binary:
    real = found.resolve()
    native = _behind(real) if real.name == "codex.js" else None
    path = native or found
    tools = (native or real).parent.parent / "codex-path"
    with path.open("rb") as file:
        script = file.read(2) == b"#!"
    return Binary(path, source, script, tools if tools.is_dir() and not script else None)


def _behind(shim: Path) -> Path | None:
    """The native program behind npm's script: beside its package, as node looks for it, or in it."""
    if (target := _TARGETS.get(platform.machine())) is None:
        return None
    package, triple = target
    places = [folder / "node_modules" / "@openai" / package for folder in shim.parents]
    for place in (*places, shim.parent.parent):
        path = place / "vendor" / triple / "bin" / "codex"
        if not unfit(path, "codex"):
            return path
    return None


# -- the probe ---------------------------------------------------------------------------------------------------------


async def probe(options: CodexOptions) -> Probe:
    """What is there, its version, and whether it is signed in; bounded, and no model is asked.

    Never raises but for cancellation.
    """
    try:
        binary = await locate(options)
        version = await version_of(binary.path, "codex", _VERSION)
    except StartError as error:
        return Probe(False, detail=error.failure.message, fix=_INSTALL)
    except ProcessError as error:
        return Probe(False, detail=redact(str(error)), fix=_INSTALL)
    detail = f"{binary.path}, {binary.where}"
    if version != PINNED:
        detail += f"; version {version}, tested with {PINNED}"
    signed_in, how, fix = await _sign_in(options, binary)
    return Probe(signed_in is not False, version, str(binary.path), signed_in, f"{detail}; {how}", fix)


async def _sign_in(options: CodexOptions, binary: Binary) -> tuple[bool | None, str, str]:
    """Whether it is signed in, how that is known, and what to do when it is not."""
    if options.api_key is not None:
        return True, "an API key is configured", ""
    if (name := options.api_key_env) is not None:
        if child_env(passing=(name,)).get(name):
            return True, f"an API key is in the variable {name}", ""
        return False, f"the variable {name} is not set", f"set {name}, which api_key_env names, to an API key"
    if options.base_url is not None:
        return None, "a model server of its own, asked without a key", ""
    if options.home == "isolated":
        return False, "an isolated home without an API key", sign_in(binary.path)
    try:
        return await _status(options, binary)
    except StartError as error:
        return False, error.failure.message, "run `codex login`"
    except ProcessError as error:
        return None, f"its sign-in could not be checked: {redact(str(error))}", ""


async def _status(options: CodexOptions, binary: Binary) -> tuple[bool, str, str]:
    """What `codex login status` says: exit code 0 or 1, a sentence on stderr."""
    home = inherited() if options.home == "inherit" else Path(options.home)
    fix = f"run `CODEX_HOME={shlex.quote(str(home))} codex login`"
    if not home.is_dir():
        return False, f"the home {home} does not exist yet", fix
    given = {"CODEX_HOME": str(home), "RUST_LOG": "off"}
    async with throwaway_home() as private:
        own = options.home == "inherit"
        env = child_env(set=given) if own else child_env(minimal=True, home=private, set=given)
        done = await run_command([binary.path, "login", "status"], env=env, timeout=_STATUS_LIMIT)
    # Warnings come first; a part of the key stands behind the dash.
    lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    said = redact((lines or [f"exit code {done.exit}"])[-1].partition(" - ")[0])[:_SAID]
    return done.exit == 0, said, "" if done.exit == 0 else fix
