"""The table of models, and what a name or a path means."""

from __future__ import annotations

import os
import re
from pathlib import Path

import anyio
import pytest

from subagent_local import BadModelFile, LocalModel, UnknownModel, find_model, pull
from subagent_local._pulling.cache import Cache
from subagent_local._pulling.settings import cache_root
from subagent_local.models import DEFAULT_MODEL, MODELS, SMALL_MODEL


def test_the_table_is_whole() -> None:
    assert {DEFAULT_MODEL, SMALL_MODEL} <= set(MODELS)
    for name, model in MODELS.items():
        assert name == model.name
        assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)
        assert model.size > 10_000_000
        assert model.licence == "Apache-2.0"
        assert model.sources
        assert model.file_name.endswith(".gguf")
    assert MODELS[SMALL_MODEL].size < MODELS[DEFAULT_MODEL].size


def test_a_name_is_an_entry_of_the_table() -> None:
    assert find_model(SMALL_MODEL) is MODELS[SMALL_MODEL]


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownModel, match=rf"no model named 'gpt-9'.*{re.escape(DEFAULT_MODEL)}.*\.gguf"):
        find_model("gpt-9")


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF rest")
    return path


def test_a_path_works_wherever_a_name_does(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(gguf.parent)
    monkeypatch.setenv("HOME", str(gguf.parent))
    for way in (str(gguf), gguf, "own.gguf", "./own.gguf", "~/own.gguf"):
        assert find_model(way) == gguf
    assert anyio.run(pull, str(gguf)) == gguf


def test_a_name_wins_over_a_file_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(SMALL_MODEL).write_bytes(b"GGUF")
    assert isinstance(find_model(SMALL_MODEL), LocalModel)
    assert find_model(f"./{SMALL_MODEL}") == tmp_path / SMALL_MODEL
    assert find_model(Path(SMALL_MODEL)) == tmp_path / SMALL_MODEL


def test_a_link_to_a_file_is_followed(gguf: Path) -> None:
    link = gguf.with_name("link.gguf")
    link.symlink_to(gguf)
    assert find_model(link) == link


BAD = {
    "missing": "there is no such file",
    "folder": "not a regular file",
    "fifo": "not a regular file",
    "other content": "does not start with GGUF",
    "empty": "does not start with GGUF",
    "dangling link": "there is no such file",
    "link to itself": "cannot be used",
}


def make(kind: str, path: Path) -> None:
    match kind:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "other content":
            path.write_text("<html>")
        case "empty":
            path.touch()
        case "dangling link":
            path.symlink_to("nowhere")
        case "link to itself":
            path.symlink_to(path)
        case _:
            pass


@pytest.mark.parametrize("kind", BAD)
def test_a_path_that_is_no_model_says_why(kind: str, tmp_path: Path) -> None:
    make(kind, tmp_path / "x.gguf")
    with pytest.raises(BadModelFile, match=BAD[kind]):
        find_model(tmp_path / "x.gguf")


@pytest.mark.parametrize("path", ["/x\0y.gguf", "/" + "x" * 5000 + ".gguf"])
def test_a_path_that_no_system_takes_says_why(path: str) -> None:
    with pytest.raises(BadModelFile):
        find_model(path)


CACHES = [
    ({"SUBAGENTS_CACHE": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
    ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/subagents"),
]


@pytest.mark.parametrize(("env", "expected"), CACHES)
def test_where_the_cache_is(env: dict[str, str], expected: str) -> None:
    assert cache_root(env) == Path(expected)


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("linux", "/h/.cache"), ("darwin", "/h/Library/Caches"), ("win32", "/h/AppData/Local")],
)
def test_the_cache_of_each_platform(platform: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", platform)
    assert cache_root({"HOME": "/h"}) == Path(expected) / "subagents"


def test_a_cache_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert Cache(tmp_path / "none").find(MODELS[SMALL_MODEL]) is None
    assert not (tmp_path / "none").exists()
