"""`subagents run`: what goes in, what comes out, and the exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from cli_kit import COMMAND, Done, command, timeless

from subagents import FailureKind, visible

Call = Callable[..., Done]
HIDDEN = "a\x1b[31mb\u202ec"


def seen(done: Done) -> dict[str, Any]:
    """What the provider saw, as the script `fields` answers it."""
    assert done.code == 0, done.err
    return json.loads(done.out)


# -- the answer ------------------------------------------------------------------------------------------------------


def test_a_pipe_gets_the_answer_alone_and_as_it_is() -> None:
    done = command("run", "echo", "hidden")
    assert done.code == 0
    assert done.out == f"answer {HIDDEN} &#x202e;\n"
    assert "completed · " in done.err


def test_an_answer_that_ends_its_line_gets_no_second_end(call: Call) -> None:
    assert call("run", "echo", "hello\n").out == "hello\n"


def test_steps_plan_thoughts_and_notices_go_to_standard_error(call: Call) -> None:
    done = call("run", "echo", "show")
    assert done.out == "# Done\n\nIt is *done*.\n"
    assert timeless(done.err).splitlines() == [
        "fetching: 0 bytes/4.0 MB",
        "fetching: 4.0 MB/4.0 MB",
        "reading the prompt: 1/2 tokens",
        "odd progress",
        "  let me think",
        "▸ look",
        "· write",
        "I look first.",
        "▸ execute  ls -la",
        "✓ execute  ls -la",
        "  ✗ delete  rm x  (exit code 1)",
        "warning: slow down",
        "completed · 1,200 in, 34 out tokens · $0.5000 · 0.0 s · echo-1",
    ]


def test_quiet_shows_the_answer_alone(call: Call) -> None:
    done = call("run", "echo", "show", "-q")
    assert (done.code, done.out, done.err) == (0, "# Done\n\nIt is *done*.\n", "")


def test_quiet_still_says_what_failed(call: Call) -> None:
    done = call("run", "echo", "fail network", "--quiet")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("network during run: it was network\n")
    assert "half an answer" not in done.err


@pytest.mark.parametrize("task", ["hidden", "hidden fail"])
def test_nothing_hidden_reaches_standard_error(call: Call, task: str) -> None:
    err = call("run", "echo", task, "--label", HIDDEN).err
    assert visible(err) == err
    assert err.count(r"a\x1b[31mb\u202ec") >= 5


def test_a_structured_value_is_printed_as_json(call: Call) -> None:
    done = call("run", "echo", 'value {"b": "é\u202e"}', "--schema", '{"type": "object"}')
    assert (done.code, done.out) == (0, '{\n  "b": "é\u202e"\n}\n')


def test_a_message_that_is_not_the_answer_is_told_on_standard_error(call: Call) -> None:
    done = call("run", "echo", "edit")
    assert (done.code, done.out) == (0, "")
    assert "I have written it." in done.err


# -- exit codes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "code", "out"),
    [
        ("hello", 0, "hello\n"),
        ("fail exit", 1, ""),
        ("fail-start launch", 1, ""),
        ("fail limit", 3, ""),
        ("fail-start limit", 3, ""),
        ("end refusal", 4, "what there was\n"),
        ("end max-tokens", 5, "what there was\n"),
        ("end aborted", 130, ""),
    ],
)
def test_the_exit_code_says_how_it_ended_and_only_an_answer_is_printed(
    call: Call, task: str, code: int, out: str
) -> None:
    done = call("run", "echo", task)
    assert (done.code, done.out) == (code, out)
    assert "Traceback" not in done.err


def test_what_a_failed_run_leaves_behind_goes_to_standard_error(call: Call) -> None:
    assert "half an answer" in call("run", "echo", "fail exit").err
    assert "what there was" in call("run", "echo", "end aborted").err


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_a_failure_says_kind_stage_message_and_what_to_do_next(call: Call, kind: str) -> None:
    lines = call("run", "echo", f"fail {kind}").err.splitlines()
    assert lines[-2] == f"{kind} during run: it was {kind}"
    assert len(lines[-1]) > 20
    assert lines[-1].endswith(".")


def test_a_quota_says_when_a_retry_makes_sense(call: Call) -> None:
    assert "A retry makes sense from 1970-01-0" in call("run", "echo", "fail limit").err


def test_a_failed_start_shows_what_was_told_before(call: Call) -> None:
    err = call("run", "echo", "fail-start auth").err
    assert "looking for the engine" in err
    assert "auth during start: no engine here" in err


def test_an_error_in_a_provider_is_a_line_and_no_traceback(call: Call) -> None:
    done = call("run", "echo", "raise")
    assert done.code == 1
    assert "unknown during start: ValueError: a bug in the provider" in done.err
    assert "Traceback" not in done.err


def test_debug_shows_the_traceback(call: Call) -> None:
    done = call("--debug", "run", "echo", "raise")
    assert done.code == 1
    assert "Traceback" in done.err


def test_an_unexpected_error_is_a_line_that_says_how_to_see_more(call: Call) -> None:
    done = call("run", "clumsy", "x")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "error: unexpected ZeroDivisionError: integer division or modulo by zero\n"
        "Please report it, with what `subagents --debug …` shows.\n"
    )
    assert "Traceback" in call("--debug", "run", "clumsy", "x").err


# -- the task --------------------------------------------------------------------------------------------------------


def test_the_task_comes_from_standard_input() -> None:
    assert command("run", "echo", "-", given="from a pipe é").out == "from a pipe é\n"
    assert command("run", "echo", given="with no dash").out == "with no dash\n"
    assert command("run", "echo", "-f", "-", given="dash as file").out == "dash as file\n"


def test_a_task_on_standard_input_has_to_be_text() -> None:
    done = command("run", "echo", given=b"\xff\xfe")
    assert (done.code, done.out) == (2, "")
    assert "standard input is not UTF-8 text" in done.err


def test_with_a_task_standard_input_is_left_alone() -> None:
    assert command("run", "echo", "words", given="ignored").out == "words\n"


def test_the_task_comes_from_a_file(call: Call, tmp_path: Path) -> None:
    (tmp_path / "task.md").write_text("from a file é", encoding="utf-8")
    assert call("run", "echo", "--file", str(tmp_path / "task.md")).out == "from a file é\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("x", "--file", "y"), "the task was given twice"),
        (("--file", "/no/such/file"), "the task cannot be read: /no/such/file: No such file"),
        (("--file", sys.executable), "the task is not UTF-8 text"),
        (("",), "prompt is empty"),
        (("x", "--cwd", "/no/such/folder"), "/no/such/folder"),
        (("x", "--max-turns", "0"), "max_turns is a whole number from 1"),
        (("x", "--deadline", "-1"), "deadline is a number above 0"),
        (("x", "--schema", "/no/such/file"), "the schema cannot be read"),
        (("x", "--schema", '{"type"'), "--schema is no JSON"),
        (("x", "--schema", '{"type": "wrong"}'), "wrong"),
        (("x", "-o", "novalue"), "-o takes KEY=VALUE"),
        (("x", "-o", "=x"), "-o takes KEY=VALUE"),
        (("x", "-o", "extra={1"), "-o extra: starts like JSON and is none"),
        (("x", "-o", "colour=red"), "colour"),
        (("x", "-o", "temperature=hot"), "temperature"),
        (("x", "--permission", "ask"), "needs a terminal"),
        (("x", "--permission", "perhaps"), "perhaps"),
        (("x", "--config", "/no/such/file"), "/no/such/file"),
        (("x", "--max-depth", "0"), "Invalid value for '--max-depth'"),
        (("x", "--nonsense"), "--nonsense"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_was_typed_wrong_is_a_usage_error(call: Call, args: tuple[str, ...], words: str, as_json: bool) -> None:
    done = call("run", "echo", *args, *(["--json"] if as_json else []))
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert "Traceback" not in done.err


def test_an_option_that_is_no_pair_is_not_repeated(call: Call) -> None:
    assert "sk-secret" not in call("run", "echo", "x", "-o", "sk-secret").err


def test_the_schema_has_to_be_an_object(call: Call, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    assert (
        "--schema is a JSON object, not list" in call("run", "echo", "x", "--schema", str(tmp_path / "list.json")).err
    )


def test_the_schema_comes_from_a_file(call: Call, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "object", "required": ["answer"]}')
    done = call("run", "echo", 'value {"question": 1}', "--schema", str(tmp_path / "schema.json"))
    assert done.code == 1
    assert "output during run" in done.err
    assert "answer" in done.err


# -- options ---------------------------------------------------------------------------------------------------------


def test_every_option_reaches_the_task(call: Call, tmp_path: Path) -> None:
    saw = seen(
        call(
            *("run", "echo", "fields", "--cwd", str(tmp_path), "-m", "tiny", "--effort", "high"),
            *("--schema", '{"type": "object"}', "--read", "a", "--read", "b", "--write", "c", "--tool", "Bash"),
            *("--max-turns", "3", "--budget", "0.5", "--deadline", "60", "--idle-limit", "30", "--resume", "s-0"),
            *("--label", "a name", "--instructions", "be brief", "--max-depth", "2", "--no-changes"),
        )
    )
    assert saw["task"] == {
        "prompt": "fields",
        "cwd": str(tmp_path.resolve()),
        "model": "tiny",
        "effort": "high",
        "output_schema": {"type": "object"},
        "read": ["a", "b"],
        "write": ["c"],
        "tools": ["Bash"],
        "max_turns": 3,
        "budget": 0.5,
        "deadline": 60,
        "idle_limit": 30,
        "resume": "s-0",
        "label": "a name",
        "instructions": "be brief",
        "changes": False,
        "isolation": None,
    }
    assert saw["max_depth"] == 2


def test_what_is_not_given_stays_at_its_default(call: Call) -> None:
    saw = seen(call("run", "echo", "fields"))
    defaults = {k: v for k, v in saw["task"].items() if v not in (None, [])}
    assert defaults.keys() == {"prompt", "cwd"}
    assert saw["max_depth"] == 1
    assert saw["options"]["download"] is True


def test_options_of_the_provider_are_json_or_text(call: Call) -> None:
    saw = seen(
        call(
            *("run", "echo", "fields", "--no-download", "-o", "temperature=0.5", "-o", 'stop=["a", "b"]'),
            *("--option", 'extra={"k": [1]}', "-o", "base-url=http://h/?a=b"),
        )
    )
    assert saw["options"] == {
        "download": False,
        "temperature": 0.5,
        "base_url": "http://h/?a=b",
        "stop": ["a", "b"],
        "extra": {"k": [1]},
    }


def test_a_configuration_file_names_providers_and_options_go_on_top(call: Call, tmp_path: Path) -> None:
    config = tmp_path / "providers.toml"
    config.write_text('[providers.mine]\ntype = "echo"\ntemperature = 0.5\nbase_url = "http://a"\n')
    saw = seen(call("run", "mine", "fields", "--config", str(config), "-o", "base_url=http://b"))
    assert saw["name"] == "mine"
    assert (saw["options"]["temperature"], saw["options"]["base_url"]) == (0.5, "http://b")
    assert "did you mean mine?" in call("run", "mien", "x", "--config", str(config)).err


def test_a_provider_that_cannot_do_it_refuses_it_by_name(call: Call) -> None:
    done = call("run", "plain", "x", "--model", "m", "--budget", "1")
    assert done.code == 2
    assert "plain does not support budget, model" in done.err


def test_permission_is_rejected_unless_it_is_allowed(call: Call) -> None:
    rejected = call("run", "echo", "ask")
    assert rejected.out == "reject_once/4\n"
    assert r"reject_once: write the file a\x1b[31mb\u202ec" in rejected.err
    assert call("run", "echo", "ask", "--permission", "allow").out == "allow_once/1\n"


# -- providers that are not there ------------------------------------------------------------------------------------


def test_a_name_that_is_nearly_right_is_suggested(call: Call) -> None:
    done = call("run", "ehco", "x")
    assert (done.code, done.out) == (2, "")
    assert "did you mean echo?" in done.err


def test_an_unknown_name_says_where_to_look(call: Call) -> None:
    assert "`subagents providers` shows" in call("run", "zzz", "x").err


def test_a_provider_that_cannot_be_loaded_says_why(call: Call) -> None:
    done = call("run", "broken", "x")
    assert done.code == 2
    assert "libengine.so.7 is missing" in done.err
    assert "Traceback" not in done.err


# -- JSON lines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "code", "stop_reason"),
    [
        ("show", 0, "completed"),
        ("hidden", 0, "completed"),
        ("fail limit", 3, "error"),
        ("fail-start auth", 1, "error"),
        ("raise", 1, "error"),
        ("end refusal", 4, "refusal"),
        ("end aborted", 130, "aborted"),
    ],
)
def test_json_is_one_event_a_line_and_the_result_last(task: str, code: int, stop_reason: str) -> None:
    done = command("run", "echo", task, "--json")
    *events, result = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == code
    assert done.err == ""
    assert result["type"] == "result"
    assert result["stop_reason"] == stop_reason
    assert "result" not in {event["type"] for event in events}
    if task == "show":
        assert {e["type"] for e in events} == {"notice", "started", "thought", "text", "plan", "tool", "usage"}


def test_json_is_ascii_so_no_line_is_broken_inside() -> None:
    done = command("run", "echo", "one\u2028two\x85three é", "--json")
    assert done.out.isascii()
    assert json.loads(done.out.splitlines()[-1])["output"] == "one\u2028two\x85three é"


# -- the frame -------------------------------------------------------------------------------------------------------


def test_without_the_extra_the_command_says_what_to_install() -> None:
    code = "import sys; sys.modules.update(typer=None, rich=None); from subagents._cli import main; sys.exit(main())"
    done = command(before=(sys.executable, "-c", code))
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: the command needs typer and rich; install it with: pip install 'subagents[cli]'\n"


def test_importing_the_command_loads_neither_typer_nor_rich() -> None:
    code = "import subagents._cli, sys; sys.exit(bool({'typer', 'rich'} & set(sys.modules)))"
    assert command(before=(sys.executable, "-c", code)).code == 0


def test_the_version_is_that_of_the_distribution(call: Call) -> None:
    assert call("--version").out.startswith("subagents 0.")


@pytest.mark.parametrize("columns", ["20", "80", "200"])
def test_help_has_examples_at_any_width(columns: str) -> None:
    done = command("run", "--help", COLUMNS=columns)
    assert done.code == 0
    assert "Examples" in done.out
    assert "subagents run local" in " ".join(done.out.split())


def test_no_arguments_show_the_help(call: Call) -> None:
    assert "providers" in call().err


@pytest.mark.parametrize("redirect", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_do_no_harm(redirect: str) -> None:
    done = command(before=("sh", "-c", f'"$@" {redirect}', "sh", *COMMAND, "run", "echo", "x"))
    assert done.code == 0
    assert "Traceback" not in done.err
    assert done.out == ("" if ">&- " in f"{redirect} ".replace("2>&-", "") else "x\n")


def test_a_full_disk_is_an_error_of_one_line() -> None:
    for extra in ((), ("--json",)):
        done = command(
            before=(
                "sh",
                "-c",
                '"$@" > /dev/full',
                "sh",
                *COMMAND,
                "run",
                "echo",
                "x",
                *extra,
            )
        )
        assert done.code == 1
        assert "error: standard output cannot be written: No space left on device" in done.err
        assert "Traceback" not in done.err


def test_a_narrow_encoding_shows_codes_instead_of_failing() -> None:
    done = command("run", "echo", "é 🎉 \u202e", PYTHONIOENCODING="ascii")
    assert (done.code, done.out) == (0, "\\xe9 \\U0001f389 \\u202e\n")
