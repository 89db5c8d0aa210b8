"""The page about configuration says what is true: its example is read, and its errors are those that come."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from subagents import Config, ConfigError

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
BLOCKS: dict[str, str] = dict(re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.M | re.S))


def test_the_file_of_the_page_configures_its_providers(tmp_path: Path) -> None:
    path = tmp_path / "agents.toml"
    path.write_text(BLOCKS["toml"])
    config = Config(path)
    assert [config.provider(name).name for name in config.providers] == ["quick", "ollama", "codex"]
    path.write_text(BLOCKS["toml"].replace("temperature = 0.2", 'temperatur = 0.2\nmax_tokens = "many"'))
    with pytest.raises(ConfigError) as caught:
        Config(path).provider("quick")
    *told, there = str(caught.value).splitlines()
    *wanted, _ = BLOCKS["text"].splitlines()
    assert told == [f"{tmp_path}/{line}" for line in wanted]
    assert there.startswith("(options of local: ")


def test_the_program_of_the_page_runs(tmp_path: Path, small_model: Path) -> None:
    (tmp_path / "agents.toml").write_text(BLOCKS["toml"])
    program = BLOCKS["python"] + "print(result.stop_reason)\n"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=100
    )
    assert done.stdout in ("completed\n", "max-tokens\n"), done.stderr
