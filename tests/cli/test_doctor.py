"""`subagents doctor`: whatever is broken, it says so in a line, and what to do next."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_kit import BOUND, Done, command, environment, lifeline, plain, started, terminal

Call = Callable[..., Done]

# The command, for the entry points of another group: what is installed here has no say in these tests.
PATIENTS = """
import sys, subagents._doctor, subagents._registry
subagents._registry.GROUP, subagents._doctor.LIMIT, subagents._doctor._GRACE = "patients", {limit}, 0.3
from subagents._cli import main
sys.exit(main())
"""

MODULE = """
import asyncio, os, sys, time
import anyio
import subagents
from subagent_process import child_env, open_process
from subagents import Model, Probe

print("printed by an import")
os.write(1, b"written by an import\\n")

class Patient(subagents.Provider):
    def __init__(self, name): self.name = name
    async def drive(self, task, link): ...

class Ready(Patient):
    async def _probe(self):
        print("printed by a probe")
        return Probe(True, "7.1", "/opt/engine", True, "all is well")
    async def models(self): return [Model("big", present=False), Model("small", present=True, default=True)]

class Missing(Patient):
    async def _probe(self): return Probe(False, detail="the engine is not here", fix="install \\x1b[31mit")

class Raising(Patient):
    async def _probe(self): raise ValueError("Authorization: Bearer kQ7canary5511x")
    async def models(self): raise SystemExit(4)

class Exiting(Patient):
    async def _probe(self): sys.exit(3)
    async def models(self): return [1, 2]

class Rubbish(Patient):
    async def _probe(self): return "fine"
    async def models(self): return None

class Sloppy(Patient):
    async def _probe(self): return Probe(False, detail=ValueError("x"))
    async def models(self): return [Model("m", context=float("nan"))]

class Endless(Patient):
    async def models(self): return [Model(object())]

class Talking(Patient):
    async def _probe(self):
        return Probe(True, "7" * 9000, "http://h/?api_key=abcdefghijkl", detail="sk-ant-api03-" + "A" * 80)

class Wordy(Patient):
    async def _probe(self):
        fix = "pip install 'a-distribution-with-a-long-name[and-an-extra]'"
        return Probe(False, detail="it is not installed: " + fix, fix=fix)

class Strict(Patient):
    def __init__(self, name):
        from pydantic import BaseModel
        class Options(BaseModel):
            a: int = 1
        super().__init__(name)
    async def _probe(self): return Probe(True)
    async def drive(self, task, link):
        link.ready()
        link.finish(subagents.Result.completed("done"))

class NotMade(Patient):
    def __init__(self, name): sys.exit("no constructor today")

class Hanging(Patient):
    async def _probe(self): await anyio.sleep_forever()
    async def models(self): await anyio.sleep_forever()

class Deaf(Patient):
    async def _probe(self):
        while True:
            try:
                await anyio.sleep_forever()
            except BaseException:
                pass
    models = _probe

class Blocking(Patient):
    async def _probe(self): time.sleep(3600)  # holds its loop

class Executor(Patient):
    async def _probe(self): await asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)

class Slow(Patient):
    async def models(self): await anyio.sleep_forever()

class Child(Patient):
    async def _probe(self):
        hold = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.recv(1)"
        async with await open_process([sys.executable, "-c", hold, os.environ["LIFELINE"]], env=child_env()):
            await anyio.sleep_forever()
"""


@pytest.fixture
def acme(tmp_path: Path) -> Callable[..., Path]:
    """Makes a distribution with these patients; its folder."""

    def make(*points: str) -> Path:
        info = tmp_path / "acme-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.5\n")
        lines = [point if ":" in point else point.replace("=", "=acme_patients:") for point in points]
        (info / "entry_points.txt").write_text("[patients]\n" + "\n".join(lines))
        (tmp_path / "acme_patients.py").write_text(MODULE)
        (tmp_path / "acme_pressed.py").write_text("raise KeyboardInterrupt('by nobody')\n")
        (tmp_path / "acme_late.py").write_text(
            "import atexit, concurrent.futures as c, time\nfrom acme_patients import Patient, Probe\n"
            "atexit.register(time.sleep, 3600)\nc.ThreadPoolExecutor().submit(time.sleep, 3600)\n"
            "class Late(Patient):\n    async def _probe(self): return Probe(True)\n"
        )
        (tmp_path / "acme_shapeless.py").write_text(
            "from collections.abc import Callable\nfrom pydantic import BaseModel\nfrom acme_patients import Patient\n"
            "class Options(BaseModel):\n    call: Callable[[], int] | None = None\n"
            "class Shapeless(Patient):\n    options_type = Options\n"
        )
        (tmp_path / "acme_stuck.py").write_text("import time\ntime.sleep(3600)  # never loaded\n")
        return tmp_path

    return make


@pytest.fixture
def doctor(acme: Callable[..., Path]) -> Callable[..., dict[str, Any]]:
    """How to start the command for these patients: `command(..., **doctor("ready=Ready"))`."""

    def patients(*points: str, limit: float = 2.0) -> dict[str, Any]:
        before = (sys.executable, "-c", PATIENTS.format(limit=limit))
        path = os.pathsep.join(filter(None, (str(acme(*points)), os.environ.get("PYTHONPATH"))))
        return {"before": before, "PYTHONPATH": path, "SUBAGENTS_CONFIG": os.devnull}

    return patients


@pytest.fixture
def here(acme: Callable[..., Path], call: Call, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Call]:
    """The same inside this process, for patients that leave nothing behind."""

    def patients(*points: str) -> Call:
        monkeypatch.setattr("sys.path", [str(acme(*points)), *sys.path])
        monkeypatch.setattr("subagents._registry.GROUP", "patients")
        monkeypatch.delitem(sys.modules, "acme_patients", raising=False)
        monkeypatch.setenv("SUBAGENTS_CONFIG", os.devnull)
        return call

    return patients


Doctor = Callable[..., dict[str, Any]]
Here = Callable[..., Call]


def providers(done: Done) -> dict[str, dict[str, Any]]:
    assert "Traceback" not in done.err
    return {row["name"]: row for row in json.loads(done.out)["providers"]}


def test_what_is_ready_and_what_is_missing_is_said_with_what_to_do_next(here: Here) -> None:
    done = here("ready=Ready", "missing=Missing", "raising=Raising")("doctor")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert done.code == 0
    assert "ready ready 7.1 2, 1 here all is well" in lines
    assert "missing not ready no list the engine is not here" in lines
    at = lines.index("to do")
    assert lines[at + 1] == r"- missing: install \x1b[31mit"
    at = lines.index("raising not ready ValueError: Authorization: Bearer [redacted]")
    assert lines[at + 1] == "its models could not be listed: SystemExit: 4"
    assert lines[-1] == "1 of 3 can be used: ready"
    assert done.err.splitlines().count("printed by an import") == 1  # and nothing of it among the tables


def test_it_says_what_the_machine_offers(here: Here) -> None:
    done = here("ready=Ready")("doctor", "--json")
    machine = {fact["name"]: fact for fact in json.loads(done.out)["machine"]}
    assert list(machine) == ["python", "processes", "cache", "temporary files", "git", "configuration"]
    assert ".".join(map(str, sys.version_info[:3])) in machine["python"]["detail"]
    if sys.platform == "linux":
        assert machine["processes"]["detail"] == "a child's whole tree ends with it, also when this program is killed"
    assert machine["git"]["detail"].endswith("/git")


def test_no_provider_can_hide_another_whatever_it_does(doctor: Doctor) -> None:
    words = ("Ready", "Exiting", "Rubbish", "NotMade", "Hanging", "Deaf", "Blocking", "Executor", "Slow")
    points = [f"{word.lower()}={word}" for word in words]
    done = command(
        "doctor", "--json", **doctor(*points, *(f"{word}=acme_{word}:X" for word in ("stuck", "gone", "pressed")))
    )
    assert done.code == 0
    found = providers(done)
    late = "no answer within 2 s"
    assert found["ready"] == {
        "name": "ready",
        "type": "ready",
        "distribution": "acme",
        "version": "1.5",
        "file": None,
        "state": "ready",
        "problem": "",
        "probe": {
            "available": True,
            "version": "7.1",
            "path": "/opt/engine",
            "signed_in": True,
            "detail": "all is well",
            "fix": "",
        },
        "models": found["ready"]["models"],
        "models_problem": "",
    }
    assert [model["name"] for model in found["ready"]["models"]] == ["big", "small"]
    assert found["exiting"]["probe"]["detail"] == "SystemExit: 3"
    assert found["exiting"]["models_problem"] == "TypeError: a Model was expected, and not a value of type int"
    assert found["rubbish"]["probe"]["detail"] == "TypeError: a Probe was expected, and not a value of type str"
    assert "object is not iterable" in found["rubbish"]["models_problem"]
    assert "cannot be made: SystemExit: no constructor today" in found["notmade"]["problem"]
    assert found["hanging"]["probe"]["detail"] == found["hanging"]["models_problem"] == late
    assert found["deaf"]["probe"]["detail"] == found["deaf"]["models_problem"] == late
    assert found["blocking"]["probe"]["detail"] == found["executor"]["probe"]["detail"] == late
    assert (found["slow"]["state"], found["slow"]["models_problem"]) == ("ready", late)
    assert found["stuck"]["problem"] == "it could not be loaded within 2 s"
    assert "No module named 'acme_gone'" in found["gone"]["problem"]
    assert found["pressed"]["problem"] == "it cannot be loaded: it raises KeyboardInterrupt"


def test_a_field_of_a_wrong_type_costs_its_provider_alone(here: Here) -> None:
    subagents = here("ready=Ready", "sloppy=Sloppy", "endless=Endless")
    done = subagents("doctor", "--json")
    found = providers(done)
    assert found["ready"]["state"] == "ready"
    assert found["sloppy"]["probe"]["detail"] == "TypeError: Probe.detail: input should be a valid string"
    assert found["sloppy"]["models_problem"].startswith("TypeError: Model.context: input should be a ")
    assert "NaN" not in done.out
    assert [row["provider"] for row in json.loads(subagents("models", "--json").out)] == ["ready", "ready"]


def test_what_a_probe_says_is_redacted_and_bounded(here: Here) -> None:
    done = here("talking=Talking")("doctor", "--json")
    assert "sk-ant-api03" not in done.out
    probe = providers(done)["talking"]["probe"]
    assert (len(probe["version"]), probe["path"]) == (4096, "http://h/?api_key=[redacted]")


def test_nothing_that_a_provider_left_behind_keeps_the_command_from_its_end(doctor: Doctor) -> None:
    how = doctor("late=acme_late:Late", "ready=Ready")
    for words in (("doctor", "--json"), ("models", "--json"), ("providers", "--json"), ("providers", "late")):
        done = command(*words, **how)
        assert (done.code, "Traceback" in done.err) == (1 if words[-1] == "late" else 0, False)


def test_the_options_of_a_provider_that_never_loads_are_a_line(doctor: Doctor) -> None:
    done = command("providers", "stuck", **doctor("stuck=acme_stuck:X"))
    assert (done.code, done.out) == (1, "")
    assert "error: stuck: it could not be loaded within 2 s" in done.err


def test_options_that_have_no_schema_are_a_line(here: Here) -> None:
    done = here("shapeless=acme_shapeless:Shapeless")("providers", "shapeless")
    assert (done.code, done.out) == (1, "")
    assert "error: the options of shapeless cannot be shown: Cannot generate a JsonSchema" in done.err


def test_the_log_says_which_provider_is_looked_at(here: Here) -> None:
    done = here("ready=Ready")("--debug", "doctor")
    assert "loading ready" in done.err
    assert "asking ready" in done.err


def test_a_distribution_that_cannot_be_read_is_named_and_hides_nothing(doctor: Doctor, tmp_path: Path) -> None:
    how = doctor("strict=Strict")
    info = tmp_path / "torn-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torn\nVersion: 1.0\n")
    (info / "entry_points.txt").write_bytes(b"[patients]\nx = \xff:Y\n")
    done = command("doctor", "--json", **how)
    assert providers(done)["strict"]["state"] == "ready"
    facts = {fact["name"]: fact for fact in json.loads(done.out)["machine"]}
    assert "torn-1.0.dist-info: UnicodeDecodeError" in facts["packages"]["detail"]
    assert command("run", "strict", "hi", **how).out == "done\n"


def test_what_to_do_is_whole_on_a_narrow_terminal(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    done = here("wordy=Wordy")("doctor")
    assert "- wordy: pip install 'a-distribution-with-a-long-name[and-an-extra]'" in done.out.splitlines()
    assert done.out.count("a-distribution-with-a-long-name") == 1


def test_none_that_can_be_used_is_exit_code_1(here: Here) -> None:
    done = here("missing=Missing", "gone=acme_gone:X")("doctor")
    assert done.code == 1
    assert done.out.splitlines()[-1] == "None of 2 can be used."
    assert "uninstall" not in done.out  # what is wrong has its own advice, where somebody knows one


def test_a_configured_provider_is_asked_as_it_is_configured(here: Here, tmp_path: Path) -> None:
    config = tmp_path / "agents.toml"
    config.write_text('[providers.mine]\ntype = "ready"\n[providers.wrong]\ntype = "ready"\nspeed = 1\n')
    done = here("ready=Ready")("doctor", "--json", "--config", str(config))
    found = providers(done)
    assert (found["mine"]["state"], found["mine"]["type"], found["mine"]["file"]) == ("ready", "ready", str(config))
    assert found["wrong"]["problem"].startswith(f"{config}:3: providers.wrong: ready has no options")
    assert done.code == 0


def test_a_broken_configuration_is_told_beside_the_rest(here: Here, tmp_path: Path) -> None:
    config = tmp_path / "agents.toml"
    config.write_text("[providers.a]\nb = \n")
    subagents = here("ready=Ready")
    done = subagents("doctor", "--config", str(config))
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert f"configuration missing {config}:2: no TOML: Invalid value" in lines
    assert "- configuration: correct the file: nothing runs before that" in lines
    assert lines[-1] == "1 of 1 can be used: ready"
    assert done.code == 1
    assert subagents("doctor", "--config", str(tmp_path / "none.toml")).code == 1


def test_a_machine_with_nothing_gets_an_answer(doctor: Doctor, tmp_path: Path) -> None:
    """No provider, no git, no home, no place for a cache, no terminal, and no network where that can be had."""
    how = doctor()
    offline = ("unshare", "-n") if os.geteuid() == 0 and shutil.which("unshare") else ()
    if not offline or command(before=(*offline, "true")).code != 0:
        offline = ()
    words: tuple[str, ...] = (*offline, *how["before"])
    before = tuple(shutil.which(word) or word for word in words)
    how.update(SUBAGENTS_CONFIG=None, HOME=None, SUBAGENTS_CACHE="/dev/null/cache", PATH="/nowhere")
    how["before"] = before
    done = command("doctor", **how)
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert done.code == 1
    assert "cache missing /dev/null/cache cannot be made: /dev/null is no folder" in lines
    assert any(line.startswith("git missing not on PATH: ") for line in lines)
    assert "- git: install git" in lines
    assert lines[-1].startswith("No provider is installed; get one with: pip install 'subagent-claude-code[sdk]' or ")
    assert done.err == ""


def test_the_providers_of_this_house_answer_on_a_machine_with_nothing() -> None:
    nothing: dict[str, Any] = {"HOME": None, "PATH": "/nowhere", "SUBAGENTS_CACHE": "/dev/null/x"}
    done = command("doctor", "--json", **nothing)
    assert done.code in (0, 1)
    found = providers(done)
    for name in ("claude-code", "codex", "local"):
        assert found[name]["state"] in ("ready", "not ready"), found[name]


def test_it_needs_no_reader_and_no_standard_output(doctor: Doctor) -> None:
    how = doctor("ready=Ready")
    program: tuple[str, ...] = how["before"]
    how["before"] = ("sh", "-c", 'exec "$@" >&-', "sh", *program)
    closed = command("doctor", **how)
    assert (closed.code, closed.out) == (0, "")
    env = environment(**{name: value for name, value in how.items() if name != "before"})
    with started("doctor", before=program, env=env) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        assert process.wait(BOUND) == 141


def test_a_terminal_is_told_what_it_waits_for(doctor: Doctor) -> None:
    how = doctor("ready=Ready", "slow=Slow", limit=2.5)
    env = environment(**{name: value for name, value in how.items() if name != "before"})
    with terminal("doctor", before=how["before"], env=env) as shown:
        shown.wait_for("doctor · waiting for slow", "within 2.5 s")
        assert shown.end() == 0
        assert shown.restored()
        assert "printed by an import" in plain(shown.text)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_and_what_a_probe_has_started(doctor: Doctor, number: int) -> None:
    how = doctor("child=Child", "blocking=Blocking", "stuck=acme_stuck:X", limit=60)
    env = {name: value for name, value in how.items() if name != "before"}
    with lifeline() as line, started("doctor", before=how["before"], env=environment(LIFELINE=line.port, **env)) as it:
        line.born()
        it.send_signal(number)
        out, err = it.communicate(timeout=BOUND)
        assert line.died()
        assert (it.returncode, out) == (130, b"")
        assert b"Traceback" not in err


def test_the_list_of_models_is_not_held_up_by_one_provider(doctor: Doctor) -> None:
    done = command("models", **doctor("ready=Ready", "hanging=Hanging", "missing=Missing", "stuck=acme_stuck:X"))
    assert done.code == 0
    assert [line.split()[:2] for line in done.out.splitlines()[1:]] == [["ready", "big"], ["ready", "small"]]
    assert "no list of models from missing\n" in done.err
    assert "error: models of hanging: no answer within 2 s\n" in done.err
    assert "error: models of stuck: it could not be loaded within 2 s\n" in done.err


def test_the_models_of_one_that_cannot_list_them_are_exit_code_1(here: Here) -> None:
    done = here("raising=Raising")("models", "raising")
    assert (done.code, done.out) == (1, "")
    assert "error: models of raising: SystemExit: 4\n" in done.err


def test_the_list_of_providers_is_not_held_up_by_one_that_hangs(doctor: Doctor) -> None:
    done = command("providers", "--json", **doctor("ready=Ready", "stuck=acme_stuck:X"))
    problems = {row["name"]: row["problem"] for row in json.loads(done.out)}
    assert problems == {"ready": None, "stuck": "it could not be loaded within 2 s"}


def test_its_exit_codes_are_in_its_help(call: Call) -> None:
    assert "0 at least one provider can be used" in call("doctor", "--help").out
