"""Fixtures of the tests of subagent-local."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# pytest's importlib mode puts no folder on the path, and the helpers of this area are of no use to another one.
sys.path.insert(0, str(Path(__file__).parent))

from dialect_kit import KINDS, Kind
from llama_kit import Llama, running_llama
from local_kit import POINTER, Reply, Site, running_site


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is asked of every kind of server, or of the real engine, runs on trio with the long tests."""
    here = Path(__file__).parent
    for item in items:
        twin = item.path.name == "test_embedded.py" or "kind" in getattr(item, "fixturenames", ())
        if item.path.parent == here and twin and "trio" in item.name.partition("[")[2]:
            item.add_marker(pytest.mark.long)


@pytest.fixture
def site() -> Iterator[Site]:
    """A scripted web server on loopback."""
    with running_site() as running:
        yield running


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of this test's own; configuration of pip and uv on this machine does not reach the test."""
    import os

    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("SUBAGENTS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("subagent_local._pulling.download._BACKOFF", 0.001)
    return tmp_path / "cache"


@pytest.fixture
def unused_port() -> int:
    """A port of loopback on which nobody listens."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def small_model() -> Path:
    """The real small model, pulled once into the normal cache by our own code."""
    import anyio

    from subagent_local import SourcesFailed, pull
    from subagent_local.models import SMALL_MODEL

    async def bounded() -> Path:
        with anyio.fail_after(300):
            return await pull(SMALL_MODEL)

    try:
        return anyio.run(bounded)
    except SourcesFailed as error:
        pytest.skip(f"the small model (98 MB) cannot be pulled here: {error}")


@pytest.fixture
def fake_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Run this text in place of the engine's script: a real child, as owned and as isolated as the real one."""

    def install(text: str) -> None:
        (tmp_path / "engine.py").write_text(text)
        monkeypatch.setattr("subagent_local._engine.child._SCRIPT", tmp_path / "engine.py")

    return install


@pytest.fixture
def gguf(tmp_path: Path) -> str:
    """The path of a file that passes for a model until somebody loads it."""
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    return str(path)


@pytest.fixture
def scripted(site: Site, fake_engine: Callable[[str], None]) -> Site:
    """A scripted server, a child that points at it, and a window of 4,096 tokens."""
    fake_engine(POINTER.format(url=site.url))
    pages: dict[str, object] = {
        "/apply-template": {"prompt": "x"},
        "/tokenize": {"tokens": [1, 2, 3]},
        "/props": {"default_generation_settings": {"n_ctx": 4096}},
        "/v1/models": {},
    }
    for path, value in pages.items():
        site.scripts[path] = Reply(json.dumps(value).encode())
    return site


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind of server."""
    return KINDS[request.param]


@pytest.fixture(scope="session")
def llama(small_model: Path) -> Iterator[Llama]:
    """A real llama-server with the small model and one slot."""
    with running_llama(small_model) as running:
        yield running
