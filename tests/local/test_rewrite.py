"""From an answer to new texts: exactly what was asked for, or nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from subagent_local import Local
from subagent_local._files.rewrite import Change, Unusable, read_change
from subagent_workspace import read_files
from subagents import Task

TAG = "0123456789abcdef"
OPEN, SHUT = f'<file-{TAG} path="app.py" for="writing">', f"</file-{TAG}>"
APP = "def greet(name):\n    return name\n"
NEW = 'def greet(name):\n    """Greet."""\n    return name\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "crlf.py").write_bytes(b"\xef\xbb\xbfa = 1\r\nb = 2")
    (tmp_path / "notes.md").write_text("# Notes\n")
    (tmp_path / "empty.py").write_text("")
    return tmp_path


WRITE = ("app.py", "crlf.py", "notes.md", "empty.py", "new.py")


def answer(*files: tuple[str, str], notes: object = "done") -> str:
    return json.dumps({"files": [{"path": path, "content": content} for path, content in files], "notes": notes})


def read(folder: Path, text: str) -> Change:
    return read_change(text, read_files(folder, write=WRITE).write, TAG)


def change(folder: Path, *files: tuple[str, str]) -> dict[str, str]:
    return {rewrite.file.path: rewrite.text for rewrite in read(folder, answer(*files)).rewrites}


def test_an_answer_is_the_new_texts_and_the_notes(folder: Path) -> None:
    found = read(folder, answer(("app.py", NEW), ("new.py", ""), notes="A docstring."))
    assert found.notes == "A docstring."
    assert [(rewrite.file.path, rewrite.text) for rewrite in found.rewrites] == [("app.py", NEW), ("new.py", "")]


WRAPPED = {
    "both": f"{OPEN}\n{NEW}{SHUT}",
    "both, with line ends around": f"\n{OPEN}\n{NEW}{SHUT}\n\n",
    "the first": f"{OPEN}\n{NEW}",
    "the last": f"{NEW}{SHUT}\n",
    "the last, on the last line": f"{NEW.rstrip()}{SHUT}",
    "the first, on the first line": f"{OPEN}{NEW}",
    "one of another path": f'<file-{TAG} path="else.py">\n{NEW}{SHUT}',
}


@pytest.mark.parametrize("case", WRAPPED)
def test_the_tag_before_and_the_tag_behind_a_file_are_taken_off(folder: Path, case: str) -> None:
    assert change(folder, ("app.py", WRAPPED[case])) == {"app.py": NEW}


REFUSED: dict[str, tuple[str, str]] = {
    "no JSON": ("Here is the file:", "it is no JSON"),
    "half of it": (answer(("app.py", NEW))[:-9], "it is no JSON"),
    "more than it": (answer(("app.py", NEW)) + " done", "it is no JSON"),
    "in a fence": (f"```json\n{answer(('app.py', NEW))}\n```", "it is no JSON"),
    "too deep": ("[" * 100_000, "it is no JSON"),
    "a list": ("[]", "it is not of the form"),
    "nothing": (json.dumps({"files": [], "notes": ""}), "it is not of the form"),
    "no notes": (json.dumps({"files": [{"path": "app.py", "content": NEW}]}), "it is not of the form"),
    "other notes": (answer(("app.py", NEW), notes=5), "it is not of the form"),
    "more keys": (json.dumps({"files": [{"path": "app.py", "content": NEW}], "notes": "", "x": 1}), "not of the form"),
    "files that are none": (json.dumps({"files": ["app.py"], "notes": ""}), "one of its files is not of the form"),
    "a file with more": (
        json.dumps({"files": [{"path": "app.py", "content": NEW, "mode": 511}], "notes": ""}),
        "one of its files is not of the form",
    ),
    "a file without content": (json.dumps({"files": [{"path": "app.py"}], "notes": ""}), "one of its files"),
    "a key twice": (
        '{"files": [{"path": "app.py", "path": "new.py", "content": "a = 1"}], "notes": ""}',
        "one of its objects has a key twice",
    ),
    "another file": (answer(("util.py", NEW)), "it names 'util.py', which it was not given for writing"),
    "a file outside": (answer(("app.py", NEW), ("../app.py", NEW)), "it names '../app.py'"),
    "another spelling": (answer(("./app.py", NEW)), "it names './app.py'"),
    "a hidden name": (answer(("a\u202e.py", NEW)), r"it names 'a\u202e.py'"),
    "a file twice": (answer(("app.py", NEW), ("app.py", APP)), "it names app.py twice"),
    "the boundary inside": (answer(("app.py", f"{NEW}{SHUT}\n{OPEN}\n{NEW}")), "it repeats the tags"),
    "the boundary in a comment": (answer(("app.py", f"# {TAG}\n{NEW}")), "it repeats the tags"),
    "the boundary in capitals": (answer(("notes.md", f"# Notes\n{SHUT.upper()}\n")), "it repeats the tags"),
    "half of the boundary": (answer(("notes.md", f"# Notes\n{SHUT[:12]}\u200b\n")), "it repeats the tags"),
    "the tag as it was told of": (answer(("notes.md", "# Notes\n</file-...>\n")), "it repeats the tags"),
    "the boundary twice at the end": (answer(("app.py", f"{NEW}{SHUT}\n{SHUT}")), "it repeats the tags"),
    "the boundary in the notes": (answer(("app.py", NEW), notes=f"see {SHUT}"), "it repeats the tags"),
    "unchanged": (answer(("app.py", APP), ("notes.md", "# Notes")), "it leaves every file as it is"),
    "unchanged but for the form": (answer(("crlf.py", "a = 1\nb = 2\n")), "it leaves every file as it is"),
    "unchanged inside of tags": (answer(("app.py", f"{OPEN}\n{APP}{SHUT}")), "it leaves every file as it is"),
    "a NUL": (answer(("app.py", "a = 1\0")), "a character that no text file can hold"),
    "half a pair": (answer(("notes.md", "\ud83d")), "a character that no text file can hold"),
    "an empty text": (answer(("app.py", "\n")), "it leaves nothing of app.py"),
    "nothing but tags": (answer(("notes.md", f"{OPEN}\n{SHUT}")), "it leaves nothing of notes.md"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_an_answer_that_is_not_exactly_that_is_refused_whole(folder: Path, case: str) -> None:
    text, reason = REFUSED[case]
    with pytest.raises(Unusable) as caught:
        read(folder, text)
    assert reason in str(caught.value)


def test_files_that_stay_as_they_are_are_left_out(folder: Path) -> None:
    assert change(folder, ("app.py", APP), ("crlf.py", "a = 1\nb = 3")) == {"crlf.py": "a = 1\nb = 3"}


def test_what_looks_like_a_tag_and_was_there_may_stay(folder: Path) -> None:
    (folder / "notes.md").write_text("See <file-abc>.\n")
    assert change(folder, ("notes.md", "See <file-abc>!\n")) == {"notes.md": "See <file-abc>!\n"}


def test_blank_lines_before_the_last_tag_belong_to_the_file(folder: Path) -> None:
    assert change(folder, ("notes.md", f"# Notes\n\n\n{SHUT}")) == {"notes.md": "# Notes\n\n\n"}


def test_a_text_that_came_broken_is_refused_but_where_the_file_was_so_before(folder: Path) -> None:
    with pytest.raises(Unusable, match="came broken"):
        change(folder, ("app.py", NEW.replace("Greet", "Gr\ufffdet")))
    (folder / "app.py").write_text(APP.replace("name", "n\ufffdme", 1).replace("(n\ufffdme)", "(name)"))
    (folder / "notes.md").write_text("# N\ufffdtes\n")
    assert change(folder, ("notes.md", "# N\ufffdtes, more\n"))


def test_deep_indentation_is_not_refused_by_an_estimate(folder: Path) -> None:
    text = "".join(f"{' ' * 24}k{number}: v\n" for number in range(250))  # 8 KB, by the real tokenizer some 900 tokens
    (folder / "deep.yaml").write_text(text)
    Local().check(Task("Do it", cwd=str(folder), write=("deep.yaml",)))
