"""The provider under examples/third-party-provider: installed as somebody else would, used, and held to its promises.

And the page that leads to it shows its own files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "third-party-provider"
PAGE = (ROOT / "docs" / "write-a-provider.md").read_text(encoding="utf-8")
OURS = ("subagent-process", "subagent-workspace", "subagents", "subagent-testing")


def test_the_page_shows_the_files_as_they_are() -> None:
    shown = re.findall(r"^```\w+ file=(\S+)\n(.*?)^```", PAGE, re.M | re.S)
    files = {str(path.relative_to(EXAMPLE)) for path in EXAMPLE.rglob("*") if path.suffix in (".py", ".toml")}
    assert {name for name, _ in shown} == files
    for name, text in shown:
        assert text == (EXAMPLE / name).read_text(encoding="utf-8"), f"docs/write-a-provider.md shows another {name}"


def test_it_needs_nothing_of_the_workspace() -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    assert "tool" not in project or "uv" not in project["tool"]
    assert not list(EXAMPLE.rglob("conftest.py"))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the wheels of this project and the example, and nothing else."""
    if (uv := shutil.which("uv")) is None:
        pytest.skip("uv, which makes the environment, is not on PATH")
    folder = tmp_path_factory.mktemp("third-party")
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["constraint-dependencies"]
    (folder / "pins.txt").write_text("\n".join(pins))
    shutil.copytree(EXAMPLE, folder / "example", ignore=shutil.ignore_patterns("__pycache__", "dist"))
    env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}

    def do(*argv: str | Path) -> None:
        done = subprocess.run([uv, *argv], cwd=folder, env=env, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    python = folder / "venv" / "bin" / "python"
    do("venv", "--quiet", "--no-project", "--python", sys.executable, "venv")
    for name in OURS:
        do("build", "--quiet", "--wheel", "--out-dir", "dist", ROOT / "packages" / name)
    wheels = sorted((folder / "dist").glob("*.whl"))
    do(
        "pip",
        "install",
        "--quiet",
        "--python",
        python,
        "--constraint",
        "pins.txt",
        *wheels,
        "rich",
        "typer",
        "./example",
    )
    return python


def run(python: Path, *argv: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """In that environment, with a home of its own."""
    home = python.parents[2] / "home"
    home.mkdir(exist_ok=True)
    given = {"HOME": str(home), "PATH": os.defpath, "SUBAGENTS_CACHE": str(home / "cache"), **env}
    return subprocess.run(
        [str(python), *argv], cwd=cwd or home, env=given, capture_output=True, text=True, timeout=600, check=False
    )


def rows(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_it_is_found_and_used_by_its_name(python: Path) -> None:
    (row,) = rows(run(python, "-m", "subagents", "providers", "--json"))
    assert (row["name"], row["distribution"], row["problem"]) == ("parrot", "subagent-parrot", None)
    doctor = rows(run(python, "-m", "subagents", "doctor", "--json"))
    assert doctor["ready"] == ["parrot"]
    assert doctor["providers"][0]["probe"]["version"] == "1.0"
    assert doctor["providers"][0]["models"][0]["name"] == "grey"
    done = run(python, "-m", "subagents", "run", "parrot", "good morning", "-o", "voice=loud", "-q")
    assert (done.returncode, done.stdout) == (0, "GOOD MORNING\n"), done.stderr


@pytest.mark.long
@pytest.mark.timeout(900)
def test_it_keeps_every_promise_that_can_be_shown(python: Path) -> None:
    example = python.parents[2] / "example"
    done = run(python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests", cwd=example)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = done.stdout.splitlines()[-1]
    passed, skipped = (
        int(found[1]) if (found := re.search(rf"(\d+) {w}", summary)) else 0 for w in ("passed", "skipped")
    )
    assert passed > 80
    assert skipped == 2, done.stdout  # only asyncio has raw cancellation


@pytest.mark.long
@pytest.mark.timeout(900)
def test_one_that_was_made_for_another_version_is_told_in_the_same_environment(python: Path) -> None:
    """As an upgrade of `subagents` leaves it: the installed file is the old one."""
    home = subprocess.run(
        [str(python), "-c", "import subagent_parrot; print(subagent_parrot.__path__[0])"],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout.strip()  # fmt: skip
    source = Path(home) / "provider.py"
    before = source.read_text()
    source.write_text(
        before.replace("async def drive(self, task: Task, link: Link)", "async def drive(self, link: Link)")
    )
    try:
        done = run(python, "-m", "subagents", "run", "parrot", "good morning")
    finally:
        source.write_text(before)
    assert (done.returncode, done.stdout) == (2, "")
    assert "was made for another version of subagents: its drive cannot be called with (task, link)" in done.stderr
    assert re.search(r"subagent-parrot asks for subagents<?\S*0\.\d, and [\d.]+ is here; upgrade it: pip", done.stderr)
