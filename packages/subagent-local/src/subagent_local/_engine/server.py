"""The child: llama.cpp's HTTP server on a loopback port, for as long as standard input is open.

Started as ``python -I -S <this file>``, so that neither the environment nor a `.pth` file decides what it imports,
and this file imports the standard library and xllamacpp only. It says all it has to say in lines of JSON:

    stdin    {"packages": "…/site-packages", "model": "/…/x.gguf", "key": "…", "context": 8192, "threads": 2}
    stdout   {"url": "http://127.0.0.1:43210"}          once, when it answers
             {"error": "…"}                             instead, when it cannot; then it exits with 1

The key is never an argument, where every user of the machine could read it. Traps: the engine opens its port without
a key unless one is set; it may print to file descriptor 1, which is therefore pointed at standard error; its threads
do not end by themselves, hence `os._exit`. Small batches make it look for a closed connection more often while it
reads a prompt.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any, TextIO

BATCH = 256


def main() -> None:  # pragma: no cover  # runs under -I -S, where coverage cannot start; test_embedded.py runs it
    """Serve until the end of standard input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        # A name, so that it is not collected: the port closes with the object.
        server = _start(json.loads(sys.stdin.readline()))
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent must hear of it
        say(answers, {"error": f"{type(error).__name__}: {error}{hint(str(error))}"})
        os._exit(1)
    say(answers, {"url": server.listening_address})
    sys.stdin.read()
    os._exit(0)


def _start(config: dict[str, Any]) -> Any:  # pragma: no cover  # as above
    sys.path.append(config["packages"])
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = config["model"]
    params.n_ctx = config["context"]
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = config["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [config["key"]]
    params.ui = False
    return xllamacpp.Server(params)


def hint(error: str) -> str:
    """What to do about a shared library that the wheel of the engine does not bring along."""
    if "libgomp" not in error:
        return ""
    return " (the engine needs the OpenMP library of the system: apt-get install libgomp1, dnf install libgomp)"


def say(answers: TextIO, message: dict[str, object]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":  # pragma: no cover  # as above
    main()
