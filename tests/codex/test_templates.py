"""The prepared databases of a fresh CODEX_HOME, on the real binary."""

from __future__ import annotations

import fcntl
import getpass
import os
import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import cast

import anyio
import pytest

from subagent_codex import _templates as templates
from subagent_codex._settings import arguments, process_settings
from subagent_codex.options import CodexOptions
from subagent_process import JsonObject, Peer, RpcError, StderrTail, child_env, open_process, throwaway_home

codex_cli_bin = pytest.importorskip("codex_cli_bin", reason="openai-codex-cli-bin is not installed")
pytestmark = pytest.mark.anyio

BINARY: Path = codex_cli_bin.bundled_codex_path()
SETTINGS = arguments(process_settings(CodexOptions.model_validate({}), "/", keyed=False, trust=False))
ARGV = [BINARY, "app-server", "--strict-config", *SETTINGS]
NAMES = {f"{name}.sqlite" for name in ("state_5", "logs_2", "memories_1", "goals_1", "queue_1")}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of one's own; its folder for Codex."""
    monkeypatch.setenv("SUBAGENTS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "codex"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A fresh CODEX_HOME."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def key() -> str:
    found = templates.key(BINARY)
    assert found is not None
    return found


async def nothing(method: str, _: JsonObject) -> object:
    raise RpcError.method_not_found(method)


def inside(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def unheard(_: str, __: JsonObject) -> None:
    pass


async def initialized(codex: Path) -> tuple[object, str]:
    """What the real engine says in this home: the CODEX_HOME of its answer, and its stderr."""
    async with throwaway_home() as private:
        env = child_env(minimal=True, home=private, set={"CODEX_HOME": str(codex)})
        process = await open_process(ARGV, env=env, cwd=private.root, home=private)
        tail = StderrTail(process.stderr)
        peer = Peer(process, answer=nothing, notified=unheard, envelope=False)
        answer: object = None
        async with anyio.create_task_group() as tasks, process:
            tasks.start_soon(peer.run)
            tasks.start_soon(tail.run)
            with anyio.fail_after(30):
                answer = await peer.request("initialize", {"clientInfo": {"name": "t", "version": "0"}})
        assert isinstance(answer, dict)
        return cast("JsonObject", answer)["codexHome"], tail.text


async def test_they_are_made_once_and_copied_into_a_fresh_home(cache: Path, home: Path) -> None:
    with anyio.fail_after(60):
        assert not await templates.prepare(home, key())
        assert inside(home) == set()
        assert await templates.make(ARGV, key())
        made = (cache / key()).stat()
        assert await templates.make(ARGV, key())
        assert (cache / key()).stat() == made
        assert await templates.prepare(home, key())
    assert inside(home) == NAMES
    used, stderr = await initialized(home)
    assert used == str(home)
    assert "damaged" not in stderr


async def test_they_hold_what_the_engine_would_make_and_no_installation_id(cache: Path, home: Path) -> None:
    with anyio.fail_after(60):
        await templates.make(ARGV, key())
        await templates.prepare(home, key())
    assert inside(cache / key()) == NAMES
    with closing(sqlite3.connect(home / "state_5.sqlite")) as database:
        (migrations,) = database.execute("select count(*) from _sqlx_migrations").fetchone()
    assert migrations >= 61
    await initialized(home)
    first = (home / "installation_id").read_bytes()
    (home / "installation_id").unlink()
    await initialized(home)
    assert (home / "installation_id").read_bytes() != first


async def test_what_the_engine_left_in_the_write_ahead_log_is_in_them(home: Path) -> None:
    program = f"""
import os, sqlite3, sys
sys.stdin.readline()
kept = [sqlite3.connect(os.path.join(os.environ["CODEX_HOME"], name)) for name in {sorted(NAMES)!r}]
for database in kept:
    database.execute("pragma journal_mode = wal")
    database.execute("create table t (x)")
    database.execute("insert into t values (42)")
    database.commit()
print('{{"id": 0, "result": {{}}}}', flush=True)
sys.stdin.read()
os._exit(0)
"""
    with anyio.fail_after(30):
        assert await templates.make([sys.executable, "-c", program], "0" * 16)
        assert await templates.prepare(home, "0" * 16)
    for name in NAMES:
        with closing(sqlite3.connect(home / name)) as database:
            assert database.execute("select x from t").fetchall() == [(42,)]


async def test_nothing_in_them_says_where_or_by_whom_they_were_made(cache: Path, tmp_path: Path) -> None:
    with anyio.fail_after(60):
        assert await templates.make(ARGV, key(), given={"CANARY": "canary-5f1c", "USER": "user-5f1c"})
    words = ["canary-5f1c", "user-5f1c", str(tmp_path), os.getcwd(), "subagent-", "/tmp", "/home", socket.gethostname()]
    if len(getpass.getuser()) > 4:  # "root" is a word of its own in a schema
        words.append(getpass.getuser())
    for path in (cache / key()).iterdir():
        data = path.read_bytes()
        assert [word for word in words if word.encode() in data] == [], path.name


async def test_only_the_owner_may_look_into_the_cache(cache: Path) -> None:
    with anyio.fail_after(60):
        await templates.make(ARGV, key())
    assert [os.stat(folder).st_mode & 0o777 for folder in (cache, cache / key())] == [0o700, 0o700]


async def test_a_second_one_does_not_wait_for_the_one_that_makes_them(cache: Path) -> None:
    os.makedirs(cache)
    with (cache / "lock").open("w") as file, anyio.fail_after(10):
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not await templates.make(["/nonexistent/codex"], key())


async def test_ten_at_once_make_one(cache: Path) -> None:
    outcomes: list[bool] = []

    async def one() -> None:
        outcomes.append(await templates.make(ARGV, key()))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(one)
    assert any(outcomes)
    assert inside(cache) == {key(), "lock"}


@pytest.mark.parametrize("damage", [b"", b"no database" * 500, None], ids=["empty", "garbage", "missing"])
async def test_a_damaged_cache_fails_nothing(cache: Path, home: Path, damage: bytes | None) -> None:
    with anyio.fail_after(60):
        await templates.make(ARGV, key())
        for name in NAMES if damage is not None else ["goals_1.sqlite"]:
            path = cache / key() / name
            path.unlink() if damage is None else path.write_bytes(damage)
        assert await templates.prepare(home, key()) is (damage is not None)
    assert damage is not None or inside(home) == set()
    assert (await initialized(home))[0] == str(home)


async def test_a_cache_that_cannot_be_written_fails_nothing(cache: Path, home: Path) -> None:
    os.mkdir(cache.parent)
    os.mkfifo(cache)  # where the folder should be
    with anyio.fail_after(10):
        assert not await templates.make(ARGV, key())
        assert not await templates.prepare(home, key())


@pytest.mark.parametrize("mode", [0o777, 0o720])
async def test_a_cache_in_which_others_may_write_is_not_taken(cache: Path, home: Path, mode: int) -> None:
    with anyio.fail_after(60):
        assert await templates.make(ARGV, key())
        (cache / key()).chmod(mode)
        assert not await templates.prepare(home, key())
        assert inside(home) == set()


async def test_an_incomplete_one_is_made_anew(cache: Path, home: Path) -> None:
    with anyio.fail_after(60):
        assert await templates.make(ARGV, key())
        (cache / key() / "logs_2.sqlite").unlink()
        assert not await templates.prepare(home, key())
        assert inside(home) == set()
        assert await templates.make(ARGV, key())
        assert await templates.prepare(home, key())


async def test_a_cache_that_cannot_even_be_looked_at_fails_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBAGENTS_CACHE", str(tmp_path / ("x" * 300)))
    assert not await templates.prepare(home, key())
    assert not await templates.make(["/bin/true"], key())


@pytest.mark.parametrize(
    "script",
    [
        "exit 3",
        "exec sleep 100",
        'echo \'{"id":0,"error":{"code":-1,"message":"no"}}\'; cat',
        'echo \'{"id":0,"result":{}}\'; cat',
    ],
    ids=["it exits", "it hangs", "it refuses", "it makes no databases"],
)
async def test_an_engine_that_does_not_play_along_fails_nothing(
    cache: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "_LIMIT", 1.0)
    with anyio.fail_after(30):
        assert not await templates.make(["/bin/sh", "-c", script], "0" * 16)
    assert inside(cache) == {"lock"}


async def test_a_cancelled_one_leaves_nothing_and_the_next_makes_them(cache: Path, tmp_path: Path) -> None:
    started, argv = tmp_path / "started", ["/bin/sh", "-c", f"echo > {tmp_path}/started; exec sleep 100"]
    os.mkfifo(started)

    async def wait_for_it() -> None:
        await anyio.Path(started).read_bytes()
        tasks.cancel_scope.cancel()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_it)
            await templates.make(argv, key())
    assert inside(cache) == {"lock"}
    with anyio.fail_after(60):
        assert await templates.make(ARGV, key())


async def test_the_oldest_go_when_there_are_more_than_four(cache: Path) -> None:
    os.makedirs(cache)
    for age in range(5):
        (cache / f"old{age}").mkdir()
        os.utime(cache / f"old{age}", (1000 - age, 1000 - age))
    with anyio.fail_after(60):
        await templates.make(ARGV, key())
    assert inside(cache) == {key(), "lock", "old0", "old1", "old2"}


def test_another_binary_has_another_key_and_none_has_none(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"1")
    other.write_bytes(b"2")
    before = templates.key(one)
    assert before is not None
    assert before != templates.key(other)
    one.write_bytes(b"longer")
    assert templates.key(one) != before
    assert templates.key(tmp_path / "absent") is None


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"SUBAGENTS_CACHE": "/c"}, "/c/codex"),
        ({"SUBAGENTS_CACHE": "~/c", "HOME": "/h"}, "/h/c/codex"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/subagents/codex"),
        ({"HOME": "/h"}, "/h/.cache/subagents/codex"),
    ],
)
async def test_the_cache_is_where_all_of_it_is(
    variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SUBAGENTS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert templates._folder() == Path(folder)  # pyright: ignore[reportPrivateUsage]


async def test_a_cache_in_the_home_of_nobody_is_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBAGENTS_CACHE", "~nobody-of-that-name/c")
    assert not await templates.prepare(home, key())
    assert not await templates.make(["/bin/true"], key())
