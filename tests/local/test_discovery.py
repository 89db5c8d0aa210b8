"""Which server and which model of it are meant: named, the only one, or an error that lists what there is."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from dialect_kit import KINDS, MODEL, Kind, llama_pages, lm_studio_pages, ollama_pages, page
from local_kit import Reply, Site, run, running_site, start_error

from subagent_local import Local, ServerUnusable
from subagent_local._servers.discovery import PORTS
from subagents import Model, NoticeEvent

pytestmark = pytest.mark.anyio


@pytest.fixture
def sites(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], list[Site]]]:
    """So many servers on what are then the usual ports, in their order."""
    with ExitStack() as stack:

        def start(number: int) -> list[Site]:
            running = [stack.enter_context(running_site()) for _ in range(number)]
            ports = tuple(site.server.server_address[1] for site in running)
            monkeypatch.setattr("subagent_local._servers.discovery.PORTS", ports)
            return running

        yield start


def named(*names: str, loaded: int = 0) -> dict[str, Reply]:
    """Ollama with these models, the first ones of them loaded."""
    return {
        **ollama_pages(),
        "/api/tags": page({"models": [{"name": name, "size": 5} for name in names]}),
        "/api/ps": page({"models": [{"name": name, "context_length": 4096} for name in names[:loaded]]}),
        "/api/chat": KINDS["ollama"].answer("hi"),
    }


def many(*names: str, loaded: int = 0) -> dict[str, Reply]:
    """LM Studio with these models, the first ones of them loaded."""
    models = [
        {
            "type": "llm",
            "key": name,
            "max_context_length": 9000,
            "loaded_instances": [{"id": f"{name}:2", "config": {"context_length": 5000}}] if i < loaded else [],
        }
        for i, name in enumerate(names)
    ]
    return {**lm_studio_pages(), "/api/v1/models": page({"models": models})}


# -- one server ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["qwen3:8b", "gemma3", "gemma3:latest", None])
async def test_a_model_is_asked_for_by_its_name_or_is_the_only_one_that_is_loaded(
    site: Site, wanted: str | None
) -> None:
    site.scripts.update(named("gemma3:latest", "qwen3:8b", "phi4:14b", loaded=1))
    result, _ = await run(Local(url=site.url, model=wanted) if wanted else Local(url=site.url))
    assert result.model == ("qwen3:8b" if wanted == "qwen3:8b" else "gemma3:latest")
    by_task, _ = await run(Local(url=site.url, model="gemma3"), model="phi4:14b")
    assert by_task.model == "phi4:14b"


EMBEDDING: dict[str, dict[str, object]] = {
    "by its family": {"name": "minilm:latest", "details": {"family": "nomic-bert"}},
    "by its skills": {"name": "gemma:300m", "capabilities": ["embedding"]},
    "by its name": {"name": "qwen3-embedding:0.6b", "details": {"family": "qwen3"}},
}


@pytest.mark.parametrize("how", EMBEDDING)
async def test_a_model_for_embeddings_that_is_loaded_is_not_taken(site: Site, how: str) -> None:
    entry = EMBEDDING[how]
    site.scripts.update(named("qwen3:8b"))
    site.scripts["/api/tags"] = page({"models": [entry, {"name": "qwen3:8b", "size": 5}]})
    site.scripts["/api/ps"] = page({"models": [{**entry, "context_length": 512}]})
    result, _ = await run(Local(url=site.url))
    assert result.model == "qwen3:8b"
    site.scripts["/api/tags"] = page({"models": [entry]})
    assert (await start_error(Local(url=site.url))).failure.kind == "model"


async def test_a_model_that_runs_elsewhere_is_taken_by_name_alone_and_told(site: Site) -> None:
    cloud = {"name": "big:cloud", "remote_model": "big", "remote_host": "https://ollama.com:443"}
    site.scripts.update(named())
    site.scripts["/api/tags"] = page({"models": [cloud]})
    error = await start_error(Local(url=site.url))
    assert "no model that is taken unasked: name one with model: big:cloud" in error.failure.message
    result, events = await run(Local(url=site.url, model="big:cloud"))
    assert result.ok
    assert isinstance(events[0], NoticeEvent)
    assert events[0].text.endswith(", which has it run by https://ollama.com:443")
    assert "run by https://ollama.com:443" in (await Local(url=site.url, model="big:cloud").probe()).detail


async def test_what_has_a_version_and_no_models_is_not_ollama(sites: Callable[[int], list[Site]]) -> None:
    """The web interface that many run beside it, on the usual port of another."""
    web, ollama = sites(2)
    web.scripts["/api/version"] = page({"version": "0.6.5"})
    web.scripts["/api/tags"] = Reply(b"<html>", headers={"Content-Type": "text/html"})
    ollama.scripts.update(named("qwen3:8b"))
    assert (await run(Local(url="auto")))[0].model == "qwen3:8b"
    web.scripts["/api/tags"] = page({"models": []})
    assert (await run(Local(url="auto")))[0].model == "qwen3:8b"


async def test_a_server_that_is_not_what_it_was_called_is_told_by_its_pages(site: Site) -> None:
    KINDS["vllm"].serve(site)
    error = await start_error(Local(url=site.url, dialect="ollama"))
    assert "lists no model (/api/tags: HTTP 404, /api/ps: HTTP 404)" in error.failure.message


@pytest.mark.parametrize("status", [302, 403, 404, 500, 501])
async def test_what_lists_its_models_needs_no_further_page(site: Site, status: int) -> None:
    KINDS["ollama"].serve(site)
    site.scripts["/api/ps"] = Reply(b"no", status)
    assert (await run(Local(url=site.url)))[0].ok


@pytest.mark.parametrize("status", [401, 403, 429, 503])
async def test_a_gateway_that_refuses_the_pages_of_others_can_be_used(site: Site, status: int) -> None:
    KINDS["openai"].serve(site)
    for path in ("/api/tags", "/api/v1/models", "/api/v0/models"):
        site.scripts[path] = Reply(b"no", status)
    assert (await run(Local(url=site.url)))[0].ok
    site.scripts["/v1/models"] = Reply(b"no", status)
    assert (await start_error(Local(url=site.url))).failure.http_status == status


async def test_a_server_that_was_found_and_wants_a_key_is_told_by_its_address(
    sites: Callable[[int], list[Site]],
) -> None:
    (found,) = sites(1)
    KINDS["llama.cpp"].serve(found, page({"error": {"message": "Invalid API Key"}}, 401))
    error = await start_error(Local(url="auto"))
    assert f"Give {found.url} as url, and the key that it wants as api_key_env" in error.failure.message


async def test_two_of_one_name_are_one(site: Site) -> None:
    kind = KINDS["openai"]
    kind.serve(site)
    site.scripts["/v1/models"] = page({"data": [{"id": "a", "context_length": 9000}, {"id": "a"}]})
    assert (await run(Local(url=site.url)))[0].model == "a"
    assert [model.context for model in await Local(url=site.url, model="a").models()] == [9000]


@pytest.mark.parametrize("odd", [["a"], {"a": 1}, None, 7, ""])
async def test_a_name_that_is_none_is_not_there(site: Site, kind: Kind, odd: object) -> None:
    """On every page, in every place of a name."""
    kind.serve(site)
    for path, reply in list(site.scripts.items()):
        if isinstance(reply, Reply) and path != kind.chat:
            body = json.loads(reply.body)
            site.scripts[path] = page(_with(body, odd))
    await Local(url=site.url, dialect=kind.dialect).models()  # pyright: ignore[reportArgumentType]
    assert not (await Local(url=site.url, dialect=kind.dialect).probe()).detail.startswith("TypeError")  # pyright: ignore[reportArgumentType]


def _with(value: object, name: object) -> object:
    if isinstance(value, dict):
        names = ("name", "id", "key", "type", "family")
        return {key: name if key in names else _with(one, name) for key, one in value.items()}  # pyright: ignore
    return [_with(one, name) for one in value] if isinstance(value, list) else value  # pyright: ignore


@pytest.mark.parametrize("wanted", ["tiny", "tiny.gguf", "/models/tiny.gguf"])
async def test_a_model_that_is_called_by_its_path_may_be_asked_for_by_its_name(site: Site, wanted: str) -> None:
    KINDS["llama.cpp"].serve(site, name="/models/tiny.gguf")
    result, _ = await run(Local(url=site.url, model=wanted))
    assert result.model == "/models/tiny.gguf"


async def test_a_model_of_lm_studio_is_asked_for_by_its_key_and_answers_by_its_instance(site: Site) -> None:
    site.scripts.update(many("qwen/qwen3-8b", "google/gemma", loaded=1))
    site.scripts[KINDS["lm-studio"].chat] = KINDS["lm-studio"].answer("a")
    for wanted in ("qwen/qwen3-8b", "qwen3-8b", "qwen/qwen3-8b:2"):
        assert (await run(Local(url=site.url, model=wanted)))[0].model == "qwen/qwen3-8b:2"
    assert (await run(Local(url=site.url, model="gemma")))[0].model == "google/gemma"


async def test_a_router_of_llama_cpp_is_asked_about_the_model_that_is_meant(site: Site) -> None:
    kind = KINDS["llama.cpp"]
    kind.serve(site)
    entries = [
        {"id": name, "owned_by": "llamacpp", "status": {"value": state}, "meta": {"n_ctx_train": size}}
        for name, state, size in (("a", "unloaded", 100), ("b/c", "loaded", 3000))
    ]
    site.scripts["/v1/models"] = page({"data": entries})
    result, _ = await run(Local(url=site.url, max_tokens=100))
    assert result.model == "b/c"
    assert site.asked("/props?model=b%2Fc")
    error = await start_error(Local(url=site.url, max_tokens=2999))
    assert "the 3,000 of the window" in error.failure.message


REFUSED: dict[str, tuple[dict[str, Reply], str | None, str]] = {
    "an unknown one": (named("a", "b"), "c", "has no model that is called 'c': it has a, b"),
    "two are loaded": (named("a", "b", "c", loaded=2), None, "has 2 models: name one with model: a, b"),
    "none of two is loaded": (named("a", "b"), None, "has 2 models: name one with model: a, b"),
    "there is none": (named(), None, "lists no model: load one"),
    "two are called so": (
        {**llama_pages(), "/v1/models": page({"data": [{"id": f"{d}/m.gguf", "owned_by": "llamacpp"} for d in "xy"]})},
        "m",
        "more than one model that is called 'm': it has x/m.gguf, y/m.gguf",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_model_that_is_not_clear_is_a_start_error_that_lists_them(site: Site, case: str) -> None:
    pages, wanted, reason = REFUSED[case]
    site.scripts.update(pages)
    local = Local(url=site.url, model=wanted) if wanted else Local(url=site.url)
    error = await start_error(local)
    assert error.failure.kind == "model"
    assert reason in error.failure.message
    probe = await local.probe()
    assert (probe.available, probe.fix) == (False, "set model to one that the server has")


async def test_a_server_without_a_list_is_used_when_dialect_and_model_are_named(site: Site) -> None:
    site.scripts[KINDS["openai"].chat] = KINDS["openai"].answer("a")
    unknown = await start_error(Local(url=site.url, model="m"))
    assert "none of /v1/models (HTTP 404), /api/tags (HTTP 404), /api/v1/models" in unknown.failure.message
    assert "set dialect=openai and name a model" in unknown.failure.message
    result, _ = await run(Local(url=site.url, dialect="openai", model="m"))
    assert (result.ok, result.model) == (True, "m")


async def test_nobody_at_the_address_is_a_network_failure_that_says_so(unused_port: int) -> None:
    local = Local(url=f"http://127.0.0.1:{unused_port}")
    error = await start_error(local)
    assert (error.failure.kind, error.failure.retryable) == ("network", True)
    assert f"nothing answers at http://127.0.0.1:{unused_port}: start the model server" in error.failure.message
    probe = await local.probe()
    assert (probe.available, probe.fix[:22]) == (False, "start the model server")
    with pytest.raises(ServerUnusable, match="nothing answers"):
        await local.models()


async def test_a_server_that_takes_connections_and_says_nothing_is_a_timeout(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.scripts["/v1/models"] = Reply(b"{}", cut=0, hold=threading.Event())
    monkeypatch.setattr("subagent_local._servers.looking.LOOK", 0.3)
    error = await start_error(Local(url=site.url))
    assert error.failure.kind == "timeout"
    assert "did not say which models it has within 0.3 s" in error.failure.message


async def test_a_connection_that_breaks_is_a_network_failure(site: Site) -> None:
    site.scripts["/v1/models"] = Reply(b'{"data": []}', cut=5)
    error = await start_error(Local(url=site.url))
    assert (error.failure.kind, "the connection to the model server broke" in error.failure.message) == (
        "network",
        True,
    )


async def test_a_server_that_loads_its_model_may_be_tried_again(site: Site) -> None:
    loading = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    site.scripts["/v1/models"] = page(loading, 503)
    error = await start_error(Local(url=site.url))
    assert (error.failure.kind, error.failure.retryable) == ("overload", True)
    assert (await Local(url=site.url).probe()).fix == "wait until the server has loaded its model"


# -- what is said before any work ------------------------------------------------------------------------------------


async def test_the_models_of_a_server_and_its_probe(site: Site, kind: Kind) -> None:
    kind.serve(site, context=5000)
    (model,) = await Local(url=site.url).models()
    assert (model.name, model.context, model.present, model.default) == (MODEL, 5000, True, True)
    probe = await Local(url=site.url).probe()
    assert (probe.available, probe.path, probe.fix) == (True, site.url, "")
    assert probe.detail == f"{MODEL} will be used; found: {kind.title} at {site.url} with 1 model"
    assert not kind.asked(site)


async def test_the_default_model_is_the_one_that_would_be_used(site: Site) -> None:
    site.scripts.update(named("a", "b"))
    assert [model.default for model in await Local(url=site.url).models()] == [False, False]
    assert await Local(url=site.url, model="b").models() == [
        Model("a", size=5, present=True),
        Model("b", size=5, present=True, default=True),
    ]


# -- auto ------------------------------------------------------------------------------------------------------------


def test_the_usual_ports_are_those_of_the_kinds() -> None:
    assert PORTS == (8080, 8000, 11434, 1234)


async def test_nothing_is_contacted_unless_it_is_asked_for(
    sites: Callable[[int], list[Site]], cache: object, gguf: str
) -> None:
    (site,) = sites(1)
    KINDS["ollama"].serve(site)
    await Local().probe()
    await Local().models()
    await start_error(Local(download=False))
    assert not site.seen


async def test_the_only_server_is_found_and_says_what_it_is(sites: Callable[[int], list[Site]], kind: Kind) -> None:
    (site,) = sites(1)
    kind.serve(site)
    result, events = await run(Local(url="auto"))
    assert result.ok
    assert getattr(events[0], "text", "") == f"{MODEL} of {kind.title} at {site.url}"
    assert not any("Authorization" in seen.headers for seen in site.seen)


async def test_the_server_that_has_the_model_is_used(sites: Callable[[int], list[Site]]) -> None:
    one, two = sites(2)
    one.scripts.update(named("a", "b"))
    two.scripts.update(named("c"))
    result, _ = await run(Local(url="auto", model="c"))
    assert result.ok
    assert two.asked("/api/chat")
    assert not one.asked("/api/chat")


async def test_the_server_that_has_a_model_loaded_is_used(sites: Callable[[int], list[Site]]) -> None:
    one, two = sites(2)
    one.scripts.update(named("a", "b"))
    two.scripts.update(named("c", "d", loaded=1))
    assert (await run(Local(url="auto")))[0].model == "c"


async def test_more_than_one_choice_is_an_error_that_lists_them(sites: Callable[[int], list[Site]]) -> None:
    one, two = sites(2)
    one.scripts.update(named("a", loaded=1))
    two.scripts.update(named("a", "b", loaded=1))
    for local, which in ((Local(url="auto"), "a model loaded"), (Local(url="auto", model="a"), "the model 'a'")):
        error = await start_error(local)
        assert error.failure.kind == "model"
        assert f"more than one of them has {which}" in error.failure.message
        assert f"({one.url}: a; {two.url}: a, b)" in error.failure.message
        assert f"Ollama at {one.url} with 1 model; Ollama at {two.url} with 2 models" in error.failure.message
    assert "none of them has the model 'x'" in (await start_error(Local(url="auto", model="x"))).failure.message
    models = await Local(url="auto").models()
    assert [(model.name, model.default) for model in models] == [("a", False), ("a", False), ("b", False)]


async def test_what_else_was_found_is_told(sites: Callable[[int], list[Site]]) -> None:
    one, two, three = sites(3)
    one.scripts["/v1/models"] = Reply(b"<html>a web server</html>", headers={"Content-Type": "text/html"})
    two.scripts["/v1/models"] = page({"error": {"message": "Invalid API Key"}}, 401)
    local = Local(url="auto")
    error = await start_error(local)
    assert error.failure.kind == "network"
    assert f"at {one.url}: what answers at {one.url} is no model server" in error.failure.message
    assert f"at {two.url}: the model server answered HTTP 401: Invalid API Key" in error.failure.message
    assert not (await local.probe()).available
    with pytest.raises(ServerUnusable, match="no model server was found on the ports"):
        await local.models()
    three.scripts.update(named("a"))
    assert (await run(local))[0].ok


async def test_ports_on_which_nobody_listens_are_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as bound:  # and does not listen: nobody else can
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setattr("subagent_local._servers.discovery.PORTS", (bound.getsockname()[1],))
        error = await start_error(Local(url="auto"))
    assert "(there is nothing)" in error.failure.message
    assert "leave url out for the engine of our own" in error.failure.message


async def test_a_port_that_hangs_does_not_keep_the_others_from_being_found(
    sites: Callable[[int], list[Site]], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = sites(2)
    one.scripts["/v1/models"] = Reply(b"{}", cut=0, hold=threading.Event())
    two.scripts.update(named("a"))
    monkeypatch.setattr("subagent_local._servers.discovery._KNOCK", 0.5)
    monkeypatch.setattr("subagent_local._servers.looking.LOOK", 1000.0)  # of a server whose address was given
    result, _ = await run(Local(url="auto"))
    assert result.ok
    assert f"at {one.url}: the model server did not say" in (await Local(url="auto").probe()).detail
