"""Every command and example of the README is run: the small model, and a first use that pulls from a local index."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```", README, re.M | re.S)
RUN, TEST = (text.strip() for language, text in BLOCKS if language == "sh")
(EXAMPLE,) = (text for language, text in BLOCKS if language == "python")


def shell(command: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    import os

    bash, env = ["bash", "-c", command], {**os.environ, **env}
    return subprocess.run(
        bash, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False
    )


def test_the_two_commands_are_those_of_the_issue() -> None:
    assert RUN.startswith("pip install uv && uv run subagents run local ")
    assert TEST == "pip install uv && uv run pytest"


def test_ci_runs_the_readmes_own_test_command() -> None:
    assert TEST.removeprefix("pip install uv && ") in (ROOT / ".ci" / "run").read_text()


def test_the_example_fits_in_twelve_lines_and_its_answer_arrives(small_model: Path) -> None:
    lines = [line for line in EXAMPLE.splitlines() if line.strip()]
    assert len(lines) <= 12
    done = subprocess.run([sys.executable, "-c", EXAMPLE], capture_output=True, text=True, timeout=300, check=True)
    assert "completed" in done.stdout or "max-tokens" in done.stdout
    assert done.stderr == ""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_first_command_answers_in_a_clean_clone_that_has_to_pull(
    tmp_path: Path, small_model_index: str, small_model: Path
) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True, timeout=120)
    command = RUN.removeprefix("pip install uv && ").replace("run local", "run local --model smollm2-135m", 1)
    cache = tmp_path / "cache"
    done = shell(command, clone, SUBAGENTS_CACHE=str(cache), VIRTUAL_ENV="", PIP_INDEX_URL=small_model_index)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert any(p.stat().st_size > 90_000_000 for p in cache.rglob("*") if p.is_file())


def test_every_link_of_the_documentation_leads_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("packages/*/README.md")]
    for page in pages:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
