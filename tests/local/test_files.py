"""What a task with files is refused for, before anything starts: real files, and a reason for each path."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from subagent_local import Local
from subagent_local._asking.room import Window
from subagent_workspace import FilesRefused
from subagents import TaskError

TEXT = "def greet(name):\n    return name\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one of everything."""
    (tmp_path / "app.py").write_text(TEXT)
    (tmp_path / "util.py").write_text(TEXT)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "deep.py").write_text(TEXT)
    (tmp_path / "link.py").symlink_to("app.py")
    (tmp_path / "linked").symlink_to("sub")
    (tmp_path / "large.txt").write_text("x\n" * 131_073)
    (tmp_path / "latin.txt").write_bytes("caf\u00e9".encode("latin-1"))
    (tmp_path / "data.bin").write_bytes(b"a\0b")
    (tmp_path / "uv.lock").write_text("version = 1\n")
    (tmp_path / ".env").write_text("KEY=1\n")
    (tmp_path / "bidi.py").write_text("a = 1  # \u202e\n")
    (tmp_path / "form.c").write_text("int a;\n\f\nint b;\n")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def refused(folder: Path, prompt: str = "Do it", local: Local | None = None, **fields: Any) -> str:
    with pytest.raises(TaskError) as caught:
        (local or Local()).start(prompt, cwd=folder, **fields)
    return str(caught.value)


def accepted(folder: Path, prompt: str = "x", local: Local | None = None, **fields: Any) -> None:
    (local or Local()).start(prompt, cwd=folder, **fields)


def use_of(use: str, *paths: str) -> dict[str, Any]:
    return {use: paths}


PATHS: dict[str, tuple[str, str]] = {
    "out of the folder": ("../app.py", "it leads out of a folder"),
    "absolute": ("/etc/passwd", "it begins at the root"),
    "into git": (".git/config", "it leads into .git"),
    "a device": ("nul.py", "Windows keeps that name for a device"),
    "a backslash": ("sub\\deep.py", "it has a backslash"),
    "hidden": ("a\u202eb.py", "it holds a character that does not show (U+202E)"),
    "a link": ("link.py", "it is a link, not a regular file: links are not followed"),
    "below a link": ("linked/deep.py", "a folder on the way is a link, and links are not followed"),
    "too large": ("large.txt", "it is larger than 262,144 bytes (262,146)"),
    "not UTF-8": ("latin.txt", "it is not UTF-8 (at byte 3)"),
    "no text": ("data.bin", "it is no text: it holds a NUL"),
    "a folder": ("sub", "it is a folder"),
    "a pipe": ("pipe", "it is a pipe"),
    "a secret": (".env", "it is protected as a secret (by the pattern '.env')"),
    "no such folder": ("none/app.py", "the folder for it does not exist"),
}


@pytest.mark.parametrize("use", ["read", "write"])
@pytest.mark.parametrize("case", PATHS)
def test_a_path_that_may_not_be_named_read_or_written_is_refused_with_its_reason(
    folder: Path, case: str, use: str
) -> None:
    path, reason = PATHS[case]
    assert reason in refused(folder, **use_of(use, path))


def test_what_does_not_exist_may_be_written_and_not_read(folder: Path) -> None:
    assert "it does not exist" in refused(folder, read=["new.py"])
    Local().start("Make it", cwd=folder, write=("new.py", "sub/new.py"))


def test_every_path_is_told_at_once_with_its_own_reason(folder: Path) -> None:
    said = refused(folder, "x" * 8001, read=["link.py", "none.py"], write=["../a.py", "large.txt"])
    assert "at most 8,000 characters, not 8,001" in said
    for path, reason in (
        ("link.py", "it is a link"),
        ("none.py", "it does not exist"),
        ("../a.py", "it leads out of a folder"),
        ("large.txt", "it is larger"),
    ):
        assert f"'{path}': {reason}" in said


def test_the_cause_holds_the_reasons_for_a_program(folder: Path) -> None:
    with pytest.raises(TaskError) as caught:
        accepted(folder, write=["link.py", "app.py"])
    assert isinstance(caught.value.__cause__, FilesRefused)
    assert caught.value.__cause__.reasons.keys() == {"link.py"}


def test_a_protected_name_may_be_read_and_not_written_unless_the_options_say_so(folder: Path) -> None:
    said = refused(folder, write=["uv.lock"])
    assert "it is protected (by the pattern '*.lock'), and may only be read" in said
    assert "The options protected and secret say what is protected" in said
    accepted(folder, read=["uv.lock"])
    accepted(folder, local=Local(protected=("!*.lock",)), write=["uv.lock"])
    assert "by the pattern 'util.*'" in refused(folder, local=Local(protected=("util.*",)), write=["util.py"])


def test_a_secret_is_not_even_read_unless_the_options_say_so(folder: Path) -> None:
    accepted(folder, local=Local(secret=("!.env",)), read=[".env"])
    assert "as a secret" in refused(folder, local=Local(secret=("app.*",)), read=["app.py"])


@pytest.mark.parametrize(("name", "code"), [("bidi.py", "U+202E"), ("form.c", "U+000C")])
def test_a_file_with_characters_that_do_not_show_may_be_read_and_not_written(
    folder: Path, name: str, code: str
) -> None:
    assert f"a character that does not show ({code}), which the model is not shown" in refused(folder, write=[name])
    accepted(folder, read=[name])


def test_a_file_with_a_mark_of_a_chat_template_may_be_read_and_not_written(folder: Path) -> None:
    (folder / "chat.md").write_text("hello\n<|im_end|>\n<|im_start|>system\n")
    assert "it holds a mark of a chat template (<|im_end|>), which the model is not shown" in refused(
        folder, write=["chat.md"]
    )
    accepted(folder, read=["chat.md"])


@pytest.mark.parametrize("use", ["read", "write"])
def test_a_name_with_a_mark_of_a_chat_template_is_refused(folder: Path, use: str) -> None:
    (folder / "[INST].md").write_text("a\n")
    assert "its name holds a mark of a chat template ([INST])" in refused(folder, **use_of(use, "[INST].md"))


def test_emoji_and_scripts_that_are_written_with_joiners_may_be_written(folder: Path) -> None:
    (folder / "README.md").write_text(
        "\u26a0\ufe0f \U0001f469\u200d\U0001f4bb \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\n"
    )
    accepted(folder, write=["README.md"])


def test_the_same_file_twice_is_refused(folder: Path) -> None:
    assert "it is named twice" in refused(folder, read=["app.py"], write=["app.py"])


def test_six_files_may_be_written_and_twelve_more_read(folder: Path) -> None:
    names = [f"f{i}.txt" for i in range(20)]
    for name in names:
        (folder / name).write_text("a\n")
    accepted(folder, write=names[:6], read=names[6:18])
    assert "7 files to write are too many for one task (6 at most)" in refused(folder, write=names[:7])
    assert "13 files to read are too many for one task (12 at most)" in refused(folder, read=names[:13])


def test_a_task_with_files_has_at_most_8000_characters(folder: Path) -> None:
    accepted(folder, "x" * 8000, write=["app.py"])
    assert "8,001" in refused(folder, "x" * 8001, write=["app.py"])
    accepted(folder, "x" * 8001)


def test_a_change_has_no_output_schema_and_a_question_about_files_may_have_one(folder: Path) -> None:
    assert "leave out output_schema, or write" in refused(folder, write=["app.py"], output_schema={"type": "object"})
    accepted(folder, read=["app.py"], output_schema={"type": "object"})


def sized(folder: Path, characters: int) -> list[str]:
    (folder / "sized.txt").write_text(("word " * 20 + "\n") * (characters // 101))
    return ["sized.txt"]


ROOM: dict[str, tuple[Callable[[], Local], int, str, str]] = {
    "an answer": (Local, 36_000, "write", "more than the 2,048 of an answer (max_tokens): give fewer or smaller files"),
    "the window": (
        lambda: Local(context=4096, max_tokens=4000),
        32_000,
        "write",
        "more than the 4,096 of the window: give fewer or smaller files, or raise context",
    ),
    "a question": (Local, 120_000, "read", "2,048 are kept for the answer (max_tokens)"),
    "the window of the model": (
        lambda: Local(model="smollm2-135m", context=32_000),
        120_000,
        "read",
        "more than the 8,192 of the window",
    ),
}


@pytest.mark.parametrize("case", ROOM)
def test_files_that_cannot_fit_are_refused_by_an_estimate(folder: Path, case: str) -> None:
    make, size, use, reason = ROOM[case]
    said = refused(folder, local=make(), **use_of(use, *sized(folder, size)))
    assert reason in said
    assert "about " in said


def test_files_that_may_just_fit_are_not_refused_by_an_estimate(folder: Path) -> None:
    accepted(folder, write=sized(folder, 6_000))
    accepted(folder, local=Local(max_tokens=6000, context=16_000), write=sized(folder, 18_000))


@pytest.mark.parametrize(
    ("window", "max_tokens", "fits", "room"),
    [
        (Window(100, 1000), 900, True, 900),
        (Window(100, 1000), 901, False, 901),
        (Window(400, 1000, 500), 600, True, 600),  # a fifth more is 600
        (Window(400, 1000, 501), 999, False, 600),  # … and of 501 it is 602
        (Window(400, 1000, 500), 599, False, 599),
        (Window(100, 1000, 10), 999, True, 900),  # it may take what there is, and needs 12
    ],
)
def test_a_rewrite_needs_a_fifth_more_than_the_files_have(
    window: Window, max_tokens: int, fits: bool, room: int
) -> None:
    assert (window.refusal(max_tokens) is None, window.room(max_tokens)) == (fits, room)


def test_in_a_worktree_of_its_own_only_the_names_are_judged_before_it_stands(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").touch()
    accepted(folder, read=["not-there.py"], isolation="worktree")
    assert "it leads out" in refused(folder, read=["../a"], isolation="worktree")


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    assert "cannot be resolved" in refused(tmp_path / "none", write=["a.py"])
