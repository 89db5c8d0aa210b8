"""What the page about testing says of the scripted Messages server and of the fake `claude` is true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from subagent_testing import messages
from subagent_testing._fake_claude.play import VERBS

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
FILES: dict[str, str] = dict(re.findall(r"^```python file=(\S+)\n(.*?)^```", PAGE, re.M | re.S))
SERVER, FAKE = PAGE.split("## A scripted Messages API")[1].split("## A fake Claude Code")


def _run(folder: Path, name: str) -> list[str]:
    (folder / name).write_text(FILES[name], encoding="utf-8")
    done = subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_the_scripted_server_of_the_page_answers_as_the_page_says(tmp_path: Path) -> None:
    overloaded, called, answered, asked = _run(tmp_path, "use_messages.py")
    assert overloaded.startswith("HTTP Error 529")
    assert (called, answered, asked) == ("tool_use", "end_turn", "3 how many files?")


def test_the_fake_of_the_page_says_what_the_page_says(tmp_path: Path) -> None:
    assert _run(tmp_path, "use_fake_claude.py") == ["success done", "[''] 0"]


def test_the_page_names_every_step_of_the_server_and_no_other() -> None:
    named = set(re.findall(r"`([a-z_]+)\(", SERVER.partition("| step")[2].partition("\n\n")[0])) - {"release"}
    made = {name for name, made in vars(messages).items() if callable(made) and made.__module__ == messages.__name__}
    assert named == {name for name in made if name.islower()}


def test_the_page_names_every_step_of_the_fake_and_no_other() -> None:
    steps = re.findall(r"`([^`]+)`", "\n".join(re.findall(r"^\| (`[\"{].*?) \| ", FAKE, re.M)))
    named = {json.loads(step) if step.startswith('"') else step.split('"')[1] for step in steps}
    assert named == VERBS
