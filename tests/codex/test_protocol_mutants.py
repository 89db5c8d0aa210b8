"""A test that cannot fail proves nothing: each of these faults in our own code turns its test red."""

from __future__ import annotations

import functools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import protocol_kit
import pytest
import test_protocol_endings as endings
import test_protocol_environment as environment
import test_protocol_framing as framing
import test_protocol_requests as requests
import test_protocol_start as start
import test_protocol_steering as steering
import test_protocol_turns as turns

from subagent_codex import (
    _answers,  # pyright: ignore[reportPrivateUsage]
    _drive,  # pyright: ignore[reportPrivateUsage]
    _session,  # pyright: ignore[reportPrivateUsage]
    _stderr,  # pyright: ignore[reportPrivateUsage]
    _turn,  # pyright: ignore[reportPrivateUsage]
)
from subagent_process import Peer, RpcError
from subagents import Result, StartError

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


Told = _turn.Turn
notified = Told.notified


def gives(value: object) -> Callable[..., object]:
    """Something that always says the same."""
    return lambda *_: value


async def nothing(*_: object, **__: object) -> None:
    """In the place of something that matters."""


async def no_such_method(self: object, method: str, params: object) -> object:
    raise RpcError.method_not_found(method)


async def accepts(self: object, method: str, params: object) -> object:
    return {"decision": "accept"}


async def trusts_silence(self: Any) -> Result:
    return Result.completed(self._turn.text)


async def steers_nothing(self: Any) -> None:
    await anyio.sleep_forever()


def idle_is_the_end(self: Any, method: str, params: Any) -> None:
    if method == "thread/status/changed" and params["status"]["type"] == "idle":
        method, params = "turn/completed", {"threadId": self.thread, "turn": {"id": self.id, "status": "completed"}}
    notified(self, method, params)


def every_turn_is_ours(self: Any, method: str, params: Any) -> None:
    if method == "turn/completed":
        params = {"threadId": self.thread, "turn": {**params.get("turn", {}), "id": self.id}}
    notified(self, method, params)


def an_error_is_the_end(self: Any, method: str, params: Any) -> None:
    notified(self, method, params)
    if method == "error":
        notified(self, "turn/completed", {"threadId": self.thread, "turn": {"id": self.id, "status": "failed"}})


def everything(**options: Any) -> dict[str, str]:
    return {**os.environ, **options.get("set", {})}


EARLY = requests.test_what_is_asked_before_our_own_request_is_answered_is_answered
Row = tuple[object, str, object, Callable[[Path], Awaitable[None]]]

ROWS: dict[str, Row] = {
    "nothing is answered before the thread": (
        _drive.Drive, "_answer", no_such_method,
        lambda path: EARLY(path, *requests.EARLY[0]),
    ),
    "one answer for every kind": (
        _drive.Drive, "_answer", accepts,
        lambda path: requests.test_each_kind_of_request_is_answered_once_in_its_own_shape(path, "reject"),
    ),
    "allow is asked of nobody": (
        _drive.Drive, "_answer", accepts, requests.test_allow_grants_nothing_that_a_read_only_sandbox_does_not,
    ),
    "what is open stays open": (
        _answers.Answers, "close", gives(None),
        requests.test_cancelling_answers_what_is_open_and_what_is_asked_from_then_on_with_cancel,
    ),
    "refusals are not counted": (
        _answers.Answers, "_refused", gives("reject_once"),
        lambda path: requests.test_asked_again_and_again_a_run_ends_at_its_bound(path, requests.COMMAND),
    ),
    "no polite end": (
        _session.Session, "stop", nothing,
        requests.test_cancelling_answers_what_is_open_and_what_is_asked_from_then_on_with_cancel,
    ),
    "lines of 64 KiB": (
        _drive, "Peer", functools.partial(Peer, line_limit=1 << 16),
        lambda path: framing.test_a_long_line_is_read_whole_and_so_is_what_follows(path, 70_000),
    ),
    "lines without a limit": (
        _drive, "Peer", functools.partial(Peer, line_limit=1 << 40),
        framing.test_a_line_beyond_the_limit_is_one_clear_error_and_the_next_run_works,
    ),
    "noise is forgotten": (
        Peer, "noise", (), framing.test_noise_is_in_the_words_of_an_exit_bounded_and_without_secrets,
    ),
    "overload is final": (
        _session, "_PAUSES", (), lambda path: turns.test_an_overloaded_server_is_asked_again(path, "thread/start"),
    ),
    "overload is asked for ever": (
        _session, "_PAUSES", (0.25, 0.5, 1.0, 2.0, *(4.0,) * 94),
        lambda path: turns.test_a_server_that_stays_overloaded_is_an_overload_and_no_limit(path, "thread/start"),
    ),
    "an idle thread is the end": (
        Told, "notified", idle_is_the_end,
        turns.test_neither_a_retry_nor_an_idle_thread_nor_a_message_is_the_end,
    ),
    "an error is the end": (
        Told, "notified", an_error_is_the_end, turns.test_an_error_that_is_not_retried_is_not_the_end_either,
    ),
    "every turn is ours": (
        Told, "notified", every_turn_is_ours,
        lambda path: turns.test_the_end_of_another_turn_is_not_the_end_of_this_one(path, turns.over("another")),
    ),
    "every thread is ours": (
        Told, "_parent", gives(None), turns.test_what_other_threads_say_is_never_the_answer,
    ),
    "an exit is a success": (
        _drive.Drive, "_verdict", trusts_silence,
        lambda path: endings.test_an_exit_in_the_turn_is_an_error_whatever_its_code(path, {"exit": 0}, 0),
    ),
    "any home will do": (
        _session, "_same", gives(True),
        start.test_another_home_than_ours_is_refused_before_the_task_is_told,
    ),
    "the account is not looked at": (
        _session.Session, "check_account", nothing,
        start.test_nobody_signed_in_is_said_before_a_turn_with_the_way_to_sign_in,
    ),
    "standard error is not read": (
        _stderr.Stderr, "run", nothing, endings.test_a_flood_on_standard_error_holds_up_nothing,
    ),
    "complaints are told as they come": (
        _stderr, "condensed", str,
        start.test_a_refresh_that_fails_for_ever_is_named_once_and_cancel_works_at_once,
    ),
    "the whole environment": (
        _drive, "child_env", everything,
        environment.test_neither_a_key_nor_anything_of_ours_is_in_what_it_is_started_with,
    ),
    "nothing steers": (
        _drive.Drive, "_steer", steers_nothing, steering.test_what_is_sent_steers_the_turn_that_runs,
    ),
}  # fmt: skip


@pytest.mark.usefixtures("canaries")
@pytest.mark.parametrize("fault", ROWS)
async def test_a_fault_turns_its_test_red(tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, broken, test = ROWS[fault]
    monkeypatch.setattr(owner, name, broken)
    for module in (protocol_kit, requests, turns, endings, start, steering):
        monkeypatch.setattr(module, "BOUND", 4.0)  # a run that hangs is as red
    with pytest.raises((AssertionError, TimeoutError, StartError, IndexError)):
        await test(tmp_path)


@pytest.fixture
def canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.CANARIES.items():
        monkeypatch.setenv(name, value)
