"""The answers of 0.163.0 to the requests that the fake knows, and the notifications that follow each."""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from subagent_testing._fake.recorded import new_id

from .recorded import RECORDED
from .turn_steps import TurnSteps

Reply = tuple[dict[str, Any], list[tuple[str, Any]]]


def _initialize(play: TurnSteps) -> Reply:
    remote = {"status": "disabled", "serverName": "fake", "installationId": new_id(), "environmentId": None}
    return play.server.initialize(play.params), [("remoteControl/status/changed", remote)]


def _thread_start(play: TurnSteps) -> Reply:
    play.started = thread = play.server.start(play.params)
    return thread.answer(), [("thread/started", {"thread": thread.shown()})]


def _thread_resume(play: TurnSteps) -> Reply:
    play.started = thread = play.server.resume(play.params)
    if not play.params.get("excludeTurns"):
        advice = "Full-history hydration is deprecated for paginated threads; use `excludeTurns: true`."
        play.wire.notify("deprecationNotice", {"summary": advice, "details": None})
    idle = {"threadId": thread.id, "status": {"type": "idle"}}
    play.wire.notify("thread/status/changed", idle)
    usage = {"total": thread.tokens, "last": thread.tokens, "modelContextWindow": 258400}
    told = {"threadId": thread.id, "turnId": new_id(), "tokenUsage": usage}
    after: list[tuple[str, Any]] = [("thread/tokenUsage/updated", told)] if thread.tokens else []
    return {**thread.answer(), **RECORDED["thread/resume"]}, [*after, ("thread/goal/cleared", {"threadId": thread.id})]


def _turn_steer(play: TurnSteps) -> Reply:
    play.do_user(None)
    return {"turnId": play.turn.id}, []


def _login(play: TurnSteps) -> Reply:
    play.server.signed_in = True
    done = {"loginId": None, "success": True, "error": None, "onboardingEntrypoint": None}
    account = {"authMode": "apikey", "planType": None}
    return {"type": play.params["type"]}, [("account/login/completed", done), ("account/updated", account)]


def _logout(play: TurnSteps) -> Reply:
    play.server.signed_in = False
    return {}, [("account/updated", {"authMode": None, "planType": None})]


def _written(play: TurnSteps) -> Reply:
    return {"status": "ok", "version": "sha256:0", "filePath": "config.toml", "overriddenMetadata": None}, []


REPLIES: Mapping[str, Callable[[TurnSteps], Reply]] = {
    "initialize": _initialize,
    "account/read": lambda play: (play.server.account(), []),
    "account/login/start": _login,
    "account/logout": _logout,
    "config/read": lambda play: ({"config": {"model": RECORDED["model"]["model"]}, "origins": {}}, []),
    "config/value/write": _written,
    "model/list": lambda play: ({"data": [RECORDED["model"]], "nextCursor": None}, []),
    "thread/start": _thread_start,
    "thread/resume": _thread_resume,
    "thread/unsubscribe": lambda play: ({"status": "unsubscribed"}, []),
    "turn/start": lambda play: ({"turn": play.turn.shown()}, []),
    "turn/steer": _turn_steer,
}
"""What has no entry is answered with an empty object."""
