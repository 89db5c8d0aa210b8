"""The script of the child, started as the provider starts it, around stand-ins for the engine's package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from subagent_local._engine import server

# What the engine's package looks like to the script.
PACKAGE = """
import os, sys, types
os.write(1, b"noise of native code, without an end of line")
class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = (types.SimpleNamespace() for _ in range(3))
class Server:
    def __init__(self, params):
        assert params.hostnames == ["127.0.0.1"] and params.port == 0, vars(params)
        self.listening_address = "http://127.0.0.1:1/" + "|".join(
            map(str, [params.model.path, params.n_ctx, params.cpuparams.n_threads, params.api_keys, params.n_batch])
        )
"""


def serve(tmp_path: Path, package: str, config: dict[str, object] | None = None) -> tuple[int, str, str]:
    (tmp_path / "xllamacpp.py").write_text(package)
    config = config or {"packages": str(tmp_path), "model": "m.gguf", "key": "k", "context": 512, "threads": 3}
    done = subprocess.run(
        [sys.executable, "-I", "-S", server.__file__],
        input=json.dumps(config) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_it_says_one_line_and_leaves_when_its_input_ends(tmp_path: Path) -> None:
    code, said, noise = serve(tmp_path, PACKAGE)
    assert (code, said.count("\n")) == (0, 1)
    assert json.loads(said) == {"url": "http://127.0.0.1:1/m.gguf|512|3|['k']|256"}
    assert "noise of native code" in noise


FAULTS = {
    "raise ImportError('libgomp.so.1: cannot open shared object file')": "apt-get install libgomp1",
    "raise SystemError('two\\nlines')": "SystemError: two\nlines",
    "": "AttributeError",
}


@pytest.mark.parametrize("package", FAULTS)
def test_what_goes_wrong_is_said_in_one_line_too(tmp_path: Path, package: str) -> None:
    code, said, _ = serve(tmp_path, package)
    assert (code, said.count("\n")) == (1, 1)
    assert FAULTS[package] in json.loads(said)["error"]


def test_a_broken_configuration_is_said_as_well(tmp_path: Path) -> None:
    code, said, _ = serve(tmp_path, PACKAGE, {"model": "m.gguf"})
    assert (code, json.loads(said)["error"]) == (1, "KeyError: 'packages'")


def test_a_missing_system_library_gets_a_hint_and_nothing_else_does() -> None:
    assert "libgomp1" in server.hint("libgomp.so.1: cannot open shared object file")
    assert server.hint("no module named x") == ""


def test_each_message_is_one_line(tmp_path: Path) -> None:
    with (tmp_path / "said").open("w") as file:
        server.say(file, {"error": "two\nlines"})
    assert (tmp_path / "said").read_text() == '{"error": "two\\nlines"}\n'
