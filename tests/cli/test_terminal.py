"""What a person sees, on a real terminal (a pty), and in which state the terminal is left."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli_kit import BOUND, Terminal, environment, lifeline, plain, terminal, timeless
from rich.cells import cell_len

COLOURS = re.compile(r"\x1b\[[0-9;]*(?:3[0-79]|9[0-7])[0-9;]*m")


# -- following a run -------------------------------------------------------------------------------------------------


def test_text_streams_as_it_comes_with_a_spinner_and_the_elapsed_time() -> None:
    with terminal("run", "echo", "hang", "--label", "my job") as shown:
        shown.wait_for("hanging", "echo (my job) · working · ")
        shown.wait_for("1.0 s")
        shown.type("\x03")
        shown.wait_for("stopping: interrupted by SIGINT")
        assert shown.end() == 130
        assert shown.restored()


def test_starting_is_shown_before_anything_has_started() -> None:
    with terminal("run", "echo", "never") as shown:
        shown.wait_for("starting for ever", "echo · starting · ")
        shown.type("\x03")
        assert shown.end() == 130


def test_steps_under_way_and_the_plan_are_shown_until_they_are_done() -> None:
    with terminal("run", "echo", "busy") as shown:
        shown.wait_for("▸ execute  make all", "✓ look", "▸ write", "12 in, 3 out tokens")
        shown.type("\x03")
        assert shown.end() == 130


def test_the_answer_is_markdown_and_the_last_line_says_how_it_ended() -> None:
    with terminal("run", "echo", "show slowly") as shown:
        assert shown.end() == 0
        assert shown.restored()
        assert "\x1b[3mdone\x1b[0m" in shown.text  # *done*, in italics
        lines = timeless(plain(shown.text)).rstrip().splitlines()
        assert "It is done." in [line.strip() for line in lines]
        assert lines[-1] == "completed · 1,200 in, 34 out tokens · $0.5000 · 0.0 s · echo-1"


def test_a_download_has_a_bar_with_speed() -> None:
    with terminal("run", "echo", "download") as shown:
        shown.wait_for("fetching the model", "━", "/4.0 MB", "B/s", "00:0")
        shown.type("\x03")
        assert shown.end() == 130
        assert "fetching the model:" not in shown.text, "a line of its own is for logs"


def test_a_pull_has_a_bar_and_prints_where_the_model_is() -> None:
    with terminal("models", "pull", "tiny", "--provider", "echo") as shown:
        assert shown.end() == 0
        assert plain(shown.text).rstrip().endswith("/models/tiny.gguf")
        assert shown.restored()


def test_a_structured_value_is_json_on_a_terminal_too() -> None:
    with terminal("run", "echo", 'value {"b": "\u202e"}', "--schema", '{"type": "object"}') as shown:
        assert shown.end() == 0
        assert '{\n  "b": "\\u202e"\n}\n' in plain(shown.text)


def test_without_a_task_on_a_terminal_it_says_how_to_give_one() -> None:
    with terminal("run", "echo") as shown:
        assert shown.end() == 2
        assert "what is to be done?" in shown.text


# -- what is not let through -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["hidden", "hidden fail"])
def test_nothing_hidden_reaches_the_terminal(task: str) -> None:
    with terminal("run", "echo", task, "--label", "l\u202el") as shown:
        shown.end()
        assert r"a\x1b[31mb\u202ec" in shown.text
        assert "a\x1b[31mb" not in shown.text
        assert "\u202e" not in shown.text
        if task == "hidden":
            assert "answer a\\x1b[31mb\\u202ec \\u202e" in plain(shown.text), "the entity is shown as a code"


def test_a_link_shows_where_it_leads() -> None:
    with terminal("run", "echo", "[your bank](http://elsewhere.example)") as shown:
        assert shown.end() == 0
        assert "http://elsewhere.example" in plain(shown.text)
        assert "\x1b]8" not in shown.text


# -- terminals of every kind -----------------------------------------------------------------------------------------


def test_no_color_is_respected() -> None:
    with terminal("run", "echo", "show", env=environment(NO_COLOR="1")) as shown:
        assert shown.end() == 0
        assert not COLOURS.search(shown.text)
    with terminal("run", "echo", "show") as shown:
        shown.end()
        assert COLOURS.search(shown.text)


def test_a_dumb_terminal_gets_lines_alone() -> None:
    with terminal("run", "echo", "show", env=environment(TERM="dumb")) as shown:
        assert shown.end() == 0
        assert "\x1b" not in shown.text
        assert "✓ execute  ls -la" in shown.text


@pytest.mark.parametrize(("columns", "lines"), [(20, 5), (40, 2), (300, 80)])
def test_no_line_is_wider_than_the_terminal(columns: int, lines: int) -> None:
    with terminal("run", "echo", "wide", columns=columns, lines=lines) as shown:
        shown.wait_for("working")
        shown.type("\x03")
        assert shown.end() == 130
        drawn = plain(shown.text.replace("^C", "").split("aborted")[0])  # its echo may be inside an escape
        assert max(cell_len(line) for line in re.split("[\r\n]", drawn)) <= columns
        assert shown.restored()


def test_hidden_characters_count_as_wide_as_their_codes() -> None:
    with terminal("run", "echo", "\u202e" * 100, columns=40) as shown:
        assert shown.end() == 0
        assert max(cell_len(line) for line in re.split("[\r\n]", plain(shown.text))) <= 40
        assert shown.text.count("\\u202e") >= 100


def test_debug_shows_lines_instead_of_a_region() -> None:
    with terminal("--debug", "run", "echo", "show") as shown:
        assert shown.end() == 0
        assert "\x1b[?25l" not in shown.text


def test_an_answer_on_a_terminal_is_markdown_also_when_the_rest_goes_elsewhere(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log, terminal("run", "echo", "show", stderr=log) as shown:
        assert shown.end() == 0
        assert "\x1b[3mdone\x1b[0m" in shown.text
        assert "completed" not in shown.text
    written = (tmp_path / "log").read_text()
    assert "\x1b" not in written
    assert "✓ execute  ls -la" in written


def test_an_answer_in_a_pipe_is_followed_on_the_terminal() -> None:
    with terminal("run", "echo", "show slowly", stdout=subprocess.PIPE) as shown:
        shown.wait_for("echo · working")
        assert shown.end() == 0
        assert shown.process.stdout is not None
        assert shown.process.stdout.read() == b"# Done\n\nIt is *done*.\n"
        shown.process.stdout.close()
        assert shown.restored()


# -- interrupts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["child", "deaf"])
def test_pressing_control_c_again_and_again_leaves_nothing_and_a_terminal_as_it_was(task: str) -> None:
    with lifeline() as line, terminal("run", "echo", f"{task} {line.port}") as shown:
        line.born()
        shown.wait_for("working")
        shown.type("\x03")
        shown.wait_for("stopping" if task == "deaf" else "aborted")
        shown.type("\x03")
        shown.type("\x03")
        assert shown.end() == 130
        assert line.died()
        assert shown.restored()
        assert "Traceback" not in shown.text


def test_a_terminal_that_is_closed_ends_the_run() -> None:
    with lifeline() as line, terminal("run", "echo", f"child {line.port}") as shown:
        line.born()
        shown.wait_for("working")
        shown.hang_up()
        assert line.died()
        assert shown.process.wait(BOUND) == 130


# -- permission ------------------------------------------------------------------------------------------------------


@contextmanager
def asked(*more: str, **how: Any) -> Generator[Terminal]:
    with terminal("run", "echo", "ask", "--permission", "ask", *more, **how) as shown:
        shown.wait_for("edit: write the file", "make install", "a.txt", "because", "[n] no ? ")
        yield shown


def test_a_question_shows_what_is_asked_and_hides_nothing() -> None:
    with asked() as shown:
        assert "[y] yes, once  [2] allow it twice  [a] yes, always  [n] no ?" in plain(shown.text)
        assert r"write the file a\x1b[31mb\u202ec" in shown.text
        assert shown.text.rfind("\x1b[?25h") > shown.text.rfind("\x1b[?25l"), "the cursor is hidden"


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("y\n", "allow_once/1"),
        ("2\n", "allow_once/2"),
        ("A\n", "allow_always/3"),
        ("n\n", "reject_once/4"),
        ("\x04", "reject_once/4"),
    ],
)
def test_the_answer_of_the_person_is_the_one_that_the_child_gets(keys: str, answer: str) -> None:
    with asked() as shown:
        shown.type(keys)
        assert shown.end() == 0
        assert answer in plain(shown.text)
        assert shown.restored()


def test_an_answer_that_is_none_is_asked_for_again() -> None:
    with asked() as shown:
        shown.type("yes please\n")
        shown.wait_for("type one of: y, 2, a, n", "[n] no ? ")
        shown.type("\n")
        shown.wait_for("type one of", "[n] no ? ")
        shown.type("n\n")
        assert shown.end() == 0


def test_what_was_typed_before_the_question_is_no_answer() -> None:
    with terminal("run", "echo", "ask later", "--permission", "ask") as shown:
        shown.wait_for("working")
        shown.type("y\n")
        shown.wait_for("y\n")  # its echo: it has arrived
        shown.wait_for("[n] no ? ")
        shown.type("n\n")
        assert shown.end() == 0
        assert "reject_once/4" in plain(shown.text)


def test_other_news_wait_until_the_question_is_answered() -> None:
    with lifeline() as line, terminal("run", "echo", f"ask noisily {line.port}", "--permission", "ask") as shown:
        shown.wait_for("[n] no ? ")
        line.born()
        shown.type("y\n")
        shown.wait_for("[n] no ? ")  # two questions, one after the other
        shown.type("n\n")
        assert shown.end() == 0
        lines = [line.strip() for line in re.split("[\r\n]", plain(shown.text))]
        assert "news meanwhile" in lines
        assert "✓ other  a step meanwhile" in lines


@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_an_interrupted_question_leaves_the_terminal_as_it_was(extra: tuple[str, ...]) -> None:
    with asked(*extra) as shown:
        shown.type("\x03")
        assert shown.end() == 130
        assert shown.restored()
        assert "aborted" in shown.text


def test_a_closed_terminal_answers_no_question() -> None:
    with asked() as shown:
        shown.hang_up()
        assert shown.process.wait(BOUND) == 130


def test_json_lines_stay_pure_while_a_question_is_asked() -> None:
    with asked("--json", stdout=subprocess.PIPE) as shown:
        shown.type("y\n")
        assert shown.end() == 0
        assert shown.process.stdout is not None
        lines = shown.process.stdout.read().splitlines()
        shown.process.stdout.close()
        assert all(line.startswith(b"{") for line in lines)
        assert b'"output":"allow_once/1"' in lines[-1]
