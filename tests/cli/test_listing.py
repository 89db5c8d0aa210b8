"""`subagents providers` and `subagents models`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_kit import COMMAND, Done, command, environment, terminal

Call = Callable[..., Done]


def test_providers_are_listed_with_where_they_come_from_and_what_is_wrong(call: Call) -> None:
    done = call("providers")
    assert done.code == 0
    rows = {line.split()[0]: line for line in done.out.splitlines()}
    assert rows["echo"].split() == ["echo", "echo", "cli-engines", "1.0"]
    assert "libengine.so.7 is missing" in rows["broken"]
    assert "is offered by" in rows["twice"]
    assert "Traceback" not in done.out + done.err


def test_providers_as_json_is_one_array(call: Call) -> None:
    rows = {row["name"]: row for row in json.loads(call("providers", "--json").out)}
    assert rows["echo"] == {
        "name": "echo",
        "type": "echo",
        "distribution": "cli-engines",
        "version": "1.0",
        "file": None,
        "problem": None,
    }
    assert "libengine.so.7 is missing" in rows["broken"]["problem"]


def test_the_options_of_one_provider_are_a_table_with_what_they_take(call: Call) -> None:
    done = call("providers", "codex")
    assert (done.code, done.err) == (0, "")
    rows = {line.split()[0]: " ".join(line.split()) for line in done.out.splitlines()}
    assert rows["sandbox"].startswith("sandbox read-only|workspace-write|danger-full-access read-only what commands")
    assert rows["network_access"].startswith("network_access true|false false whether")
    assert rows["writable_roots"].startswith("writable_roots [path, …] []")


def test_the_options_of_one_provider_as_json_have_their_defaults(call: Call) -> None:
    rows = {row["name"]: row for row in json.loads(call("providers", "local", "--json").out)}
    assert (rows["context"]["values"], rows["context"]["default"]) == ("integer", 8192)
    assert "tokens of the window" in rows["context"]["help"]


def test_the_options_of_what_is_not_there_or_has_none_are_said_to_be_none(call: Call) -> None:
    assert "no provider named 'zzz'" in call("providers", "zzz").err
    assert call("providers", "zzz").code == 2
    assert "has no options" in call("providers", "plain").err


def test_without_any_provider_it_says_how_to_get_one(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    done = call("providers")
    assert (done.code, done.out) == (1, "")
    assert "pip install 'subagent-local[embedded]'" in done.err
    assert json.loads(call("providers", "--json").out) == []
    assert call("models").err == "no list of models from any provider\n"


@pytest.mark.parametrize("args", [("models", "echo"), ("models", "list", "echo")])
def test_the_models_of_a_provider_are_a_table(call: Call, args: tuple[str, ...]) -> None:
    done = call(*args)
    assert (done.code, done.err) == (0, "")
    _, tiny, big = done.out.splitlines()
    assert tiny.split() == ["echo", "tiny", "(default)", "Tiny", "One", "2048", "98.0", "MB", "yes", "MIT"]
    assert big.split() == ["echo", "big", "32768", "1.1", "GB", "no"]


def test_models_as_json_is_one_array(call: Call) -> None:
    rows = json.loads(call("models", "echo", "--json").out)
    assert [(row["provider"], row["name"], row["default"]) for row in rows] == [
        ("echo", "tiny", True),
        ("echo", "big", False),
    ]


def test_without_a_name_the_models_of_all_that_can_be_loaded_are_listed(call: Call) -> None:
    rows = json.loads(call("models", "--json").out)
    assert "echo" in {row["provider"] for row in rows}
    assert call("models").code == 0


def test_what_is_given_beside_a_file_is_never_ignored(call: Call, tmp_path: Path) -> None:
    config = tmp_path / "providers.toml"
    config.write_text('[providers.mine]\ntype = "echo"\n')
    for option in ("type=plain", "name=x", "self=x"):
        done = call("models", "mine", "--config", str(config), "-o", option)
        assert (done.code, done.out) == (2, "")
        assert f"{option.partition('=')[0]}: there is no such option" in done.err


def test_a_pipe_without_a_writer_is_no_configuration(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for words in (("doctor",), ("models",), ("run", "echo", "hi")):
        done = command(*words, "--config", str(tmp_path / "pipe"))
        assert done.code in (1, 2)
        assert "pipe: a pipe, which may never end: give a file" in done.out + done.err


def test_a_full_disk_is_told_as_that_whatever_the_buffering() -> None:
    with open("/dev/full", "w") as full:
        env = environment(PYTHONUNBUFFERED="1")
        done = subprocess.run(
            [*COMMAND, "providers"], stdout=full, stderr=subprocess.PIPE, timeout=60, env=env, check=False
        )
    assert b"standard output cannot be written: No space left on device" in done.stderr
    assert b"unexpected" not in done.stderr


def test_a_provider_without_a_list_says_so(call: Call) -> None:
    done = call("models", "plain")
    assert (done.code, done.out, done.err) == (0, "", "no list of models from plain\n")


def test_models_of_a_configured_provider(call: Call, tmp_path: Path) -> None:
    config = tmp_path / "providers.toml"
    config.write_text('[providers.mine]\ntype = "echo"\n')
    done = call("models", "mine", "--config", str(config), "-o", "temperature=1", "--json")
    assert json.loads(done.out)[0]["provider"] == "mine"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("models", "zzz"), "no provider named 'zzz'"),
        (("models", "-o", "a=b"), "-o is for one provider"),
        (("models", "pull", "tiny", "--provider", "plain"), "plain has no models to pull"),
        (("models", "pull"), "Missing argument"),
    ],
)
def test_wrong_questions_are_usage_errors(call: Call, args: tuple[str, ...], words: str) -> None:
    done = call(*args)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_a_pull_prints_where_the_model_is_and_its_progress_elsewhere(call: Call) -> None:
    done = call("models", "pull", "tiny", "--provider", "echo")
    assert (done.code, done.out) == (0, "/models/tiny.gguf\n")
    assert done.err.splitlines() == ["downloading tiny: 0 bytes/100 bytes", "downloading tiny: 100 bytes/100 bytes"]


def test_a_pull_that_fails_says_why_in_a_line(call: Call) -> None:
    done = call("models", "pull", "nowhere", "--provider", "echo")
    assert (done.code, done.out, done.err) == (1, "", "error: no source has it; try tiny\n")


def test_help_of_the_models_names_its_commands(call: Call) -> None:
    out = call("models", "--help").out
    assert "pull" in out
    assert "list" in out


def test_tables_and_json_fit_a_terminal() -> None:
    with terminal("models", "echo", columns=40) as shown:
        assert shown.end() == 0
        assert "tiny" in shown.text
    with terminal("providers", "--json") as shown:
        assert shown.end() == 0
        assert '  {\r\n    "name": "broken"' in shown.text


def test_configured_providers_are_listed_with_their_file_and_what_is_wrong(call: Call, tmp_path: Path) -> None:
    config = tmp_path / "providers.toml"
    config.write_text(
        '[providers.mine]\ntype = "echo"\n[providers.wrong]\ntype = "echo"\nspeed = 1\n[providers.echo]\n'
    )
    rows = {row["name"]: row for row in json.loads(call("providers", "--json", "--config", str(config)).out)}
    assert (rows["mine"]["type"], rows["mine"]["file"], rows["mine"]["problem"]) == ("echo", str(config), None)
    assert rows["wrong"]["problem"].startswith(f"{config}:5: providers.wrong.speed: there is no such option")
    assert rows["echo"]["file"] == str(config)
    assert rows["plain"]["file"] is None
    assert call("providers", "mine", "--config", str(config)).out == call("providers", "echo").out


def test_the_file_of_the_person_is_read_where_none_is_named(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "own.toml"
    config.write_text('[providers.mine]\ntype = "echo"\n')
    monkeypatch.setenv("SUBAGENTS_CONFIG", str(config))
    assert call("run", "mine", "hello", "-q").out == "hello\n"
    assert json.loads(call("models", "mine", "--json").out)[0]["provider"] == "mine"
    assert "no provider named 'mine'" in call("run", "mine", "hello", "--config", "/dev/null").err
    config.write_text("[providers.mine\n")
    done = call("run", "echo", "hello")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {config}:1: no TOML: ")
