"""What the tests of work inside a task have in common: a person with tokens, repositories, toolchains."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TOKEN: Final = "bait-77ab01"
"""In every file of the person that holds one."""

COMMIT: Final = "echo more > more.txt && git add more.txt && git commit -q -m 'by the task' && echo COMMITTED"

READS: Final = (
    'cat ~/.npmrc ~/.netrc ~/.pypirc ~/.config/gh/hosts.yml "$CARGO_HOME"/*; env; git config --list;'
    "printf 'protocol=https\\nhost=x\\n\\n' | git credential fill; echo END"
)
"""A command that looks for tokens where tools would."""

_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "uv": ("uv run --offline python -c 'print(6 * 7)'", "42"),
    "npm": ("npm run hello", "hello from npm"),
    "cargo": ("cargo --version", "cargo "),
    "python3": ("python3 -c 'import tempfile; print(tempfile.mkdtemp())'", "/tools/tmp/"),
}


def fill(home: Path) -> Path:
    """Make a person's HOME: a git identity, and tokens."""
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = The Person\n\temail = p@x\n"
        f'[credential]\n\thelper = "!f() {{ echo username=u; echo password={TOKEN}; }}; f"\n'
    )
    for name in (".npmrc", ".netrc", ".pypirc", ".cargo/credentials.toml", ".config/gh/hosts.yml"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(TOKEN)
    return home


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, timeout=30, text=True)
    return done.stdout


def repository(path: Path) -> Path:
    """A repository with one commit."""
    path.mkdir(exist_ok=True)
    git(path, "init", "-q", "-b", "main")
    (path / "first.txt").touch()
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    return path


def installed(work: Path) -> dict[str, str]:
    """Commands of whatever of uv, npm, cargo and Python is installed here, and what each says: without a network."""
    (work / "package.json").write_text('{"scripts": {"hello": "echo hello from npm"}}')
    return dict(_COMMANDS[name] for name in _COMMANDS if shutil.which(name))


def rustup_shim(person: Path) -> str:
    """A `cargo` that finds its toolchain as a shim of rustup does; the folder to put first on PATH."""
    for name, text in {
        ".rustup/settings.toml": "default = stable\n",
        ".cargo/bin/cargo": '#!/bin/sh\ncat "$RUSTUP_HOME/settings.toml"; mkdir -p "$CARGO_HOME" && echo writable\n',
    }.items():
        (person / name).parent.mkdir(parents=True, exist_ok=True)
        (person / name).write_text(text)
    (person / ".cargo/bin/cargo").chmod(0o755)
    return str(person / ".cargo/bin")
