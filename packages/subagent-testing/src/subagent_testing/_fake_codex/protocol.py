"""What the app-server of 0.163.0 knows and refuses by itself: its methods, its threads, its turns.

Everything here was recorded from the real one; a test replays the exchange on both and compares.
"""
# pragma: exclude file (coverage cannot start under -I -S; every line runs in tests/testing/test_fake_codex*.py)

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from subagent_testing._fake.recorded import fill, new_id

from .recorded import RECORDED

VERSION = "0.163.0"
INVALID_REQUEST, INVALID_PARAMS = -32600, -32602
MOST_CHARACTERS = 1_048_576
WORDS: Mapping[str, tuple[str, ...]] = {
    "sandbox": tuple(RECORDED["sandboxes"]),
    "approvalPolicy": ("untrusted", "on-request", "granular", "never"),
}
LOGINS = ("apiKey", "chatgpt", "chatgptDeviceCode", "chatgptAuthTokens", "amazonBedrock", "amazonBedrockAccessKeys")
PROFILES: Mapping[str, str] = {
    ":read-only": "read-only",
    ":workspace": "workspace-write",
    ":danger-full-access": "danger-full-access",
}
"""Permission profile of its own -> the sandbox as which it is shown."""

INPUTS = ("text", "image", "localImage", "audio", "localAudio", "skill", "mention")

REQUIRED: Mapping[str, tuple[str, ...]] = {
    "initialize": ("clientInfo",),
    "account/read": (),
    "account/login/start": ("type",),
    "account/logout": (),
    "config/read": (),
    "config/value/write": ("keyPath", "value", "mergeStrategy"),
    "model/list": (),
    "thread/start": (),
    "thread/resume": ("threadId",),
    "thread/inject_items": ("threadId", "items"),
    "thread/unsubscribe": ("threadId",),
    "thread/backgroundTerminals/clean": ("threadId",),
    "turn/start": ("threadId", "input"),
    "turn/steer": ("threadId", "input", "expectedTurnId"),
    "turn/interrupt": ("threadId", "turnId"),
}
"""The methods that the fake has an answer for, and what their parameters must have."""

WITHOUT_PARAMS = ("account/logout",)
EXPERIMENTAL = ("thread/backgroundTerminals/clean", "thread/start.dynamicTools")
NO_UUID = "invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], found `n` at 1"


class Refused(Exception):
    """The request is answered with this error."""

    def __init__(self, message: str, code: int = INVALID_REQUEST, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, **({} if data is None else {"data": data}), "message": message}


class Unanswered(Exception):
    """The request is answered at another time."""


class Turn:
    """A turn, and what it has said."""

    def __init__(self) -> None:
        self.id = new_id()
        self.started = time.time()
        self.interrupted = False
        self.messages: list[dict[str, Any]] = []

    def shown(self, **members: Any) -> dict[str, Any]:
        """As answers and notifications show it."""
        return {**fill(RECORDED["turn"], turn=self.id), **members}

    def answer(self) -> list[dict[str, Any]]:
        """The item that `turn/completed` shows: the last final answer, else the last message without a phase."""
        for phase in ("final_answer", None):
            if found := [item for item in self.messages if item["phase"] == phase]:
                return found[-1:]
        return []


class Thread:
    """A thread: the settings that it was started with, its turns, its usage so far.

    Args:
        thread_id: its id.
        asked: the parameters of the request that opens it.
        kept: the settings that it had before, when it is resumed.
        originator: the client's name.
    """

    def __init__(self, thread_id: str, asked: Mapping[str, Any], kept: Mapping[str, Any], originator: str) -> None:
        self.id = thread_id
        self.settings: dict[str, Any] = {"sandbox": "read-only", "approvalPolicy": "on-request", "model": "gpt-5.5"}
        self.settings |= {**kept, **{name: value for name, value in asked.items() if value is not None}}
        self.settings["sandbox"], self.profile = _opened(asked, self.settings["sandbox"])
        self.cwd = os.path.abspath(self.settings.get("cwd", os.getcwd()))
        self.names = {"thread": thread_id, "cwd": self.cwd, "started": int(time.time()), "originator": originator}
        self.turn: Turn | None = None
        self.last: Turn | None = None
        self.tokens: dict[str, int] = {}
        self.late: list[Any] = []
        """Requests to interrupt what had been interrupted: the real one answers them when the next turn ends."""

    @property
    def path(self) -> str | None:
        """Where it is kept; nowhere when it is ephemeral."""
        if self.settings.get("ephemeral"):
            return None
        return os.path.join(codex_home(), "sessions", f"{self.id}.json")

    def shown(self) -> dict[str, Any]:
        """As answers and `thread/started` show it."""
        own = {"ephemeral": self.path is None, "path": self.path, "model": self.settings["model"]}
        return {**fill(RECORDED["thread"], **self.names), **own}

    def answer(self) -> dict[str, Any]:
        """The result of starting it."""
        return {
            **fill(RECORDED["thread/start"], **self.names),
            "thread": self.shown(),
            "model": self.settings["model"],
            "approvalPolicy": self.settings["approvalPolicy"],
            "sandbox": RECORDED["sandboxes"][self.settings["sandbox"]],
            "activePermissionProfile": self.profile,
        }

    def begin(self) -> bool:
        """A new turn; false when there is one, which goes on."""
        if self.turn is not None:
            return False
        self.turn = Turn()
        return True

    def end_turn(self, turn: Turn) -> None:
        """A turn is over; a thread that is not ephemeral is written down, so that another process can resume it."""
        self.turn, self.last = None, turn
        if self.path is not None:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(self.path, "w", encoding="utf-8") as file:
                json.dump({"settings": {**self.settings, "cwd": self.cwd}, "tokens": self.tokens}, file)


class Server:
    """What the server knows of its client."""

    def __init__(self, script: Mapping[str, Any]) -> None:
        self.script = script
        self.client: Mapping[str, Any] | None = None
        self.experimental = False
        self.signed_in = bool(script.get("signed_in", has_key()))
        self.threads: dict[str, Thread] = {}

    def check(self, method: str, request: Mapping[str, Any]) -> None:
        """Refuse what the real one refuses, in its words.

        Raises:
            Refused: with the error to answer.
            Unanswered: the answer comes with the end of the next turn.
        """
        if method not in REQUIRED and method not in self.script.get("on", {}):
            raise Refused(_unknown(method, REQUIRED))
        params: dict[str, Any] = request.get("params") or {}
        missing = [name for name in REQUIRED.get(method, ()) if name not in params]
        if request.get("params") is None and method not in WITHOUT_PARAMS:
            missing = ["params"]
        if missing:
            raise Refused(f"Invalid request: missing field `{missing[0]}`")
        if method == "initialize":
            if self.client is not None:
                raise Refused("Already initialized")
        elif self.client is None:
            raise Refused("Not initialized")
        for wanted in (method, *(f"{method}.{name}" for name in params)):
            if wanted in EXPERIMENTAL and not self.experimental:
                raise Refused(f"{wanted} requires experimentalApi capability")
        for name, words in {**WORDS, **({"type": LOGINS} if method == "account/login/start" else {})}.items():
            _check_word(params.get(name), words)
        _check_input(params.get("input", []))
        if "threadId" in params and method != "thread/resume":
            self._check_turn(method, params, request.get("id"))

    def _check_turn(self, method: str, params: Mapping[str, Any], request_id: Any) -> None:
        thread = self.threads.get(params["threadId"])
        if thread is None:
            unknown = is_uuid(params["threadId"])
            raise Refused(f"thread not found: {params['threadId']}" if unknown else f"invalid thread id: {NO_UUID}")
        active = thread.turn.id if thread.turn else None
        if method == "turn/steer" and active != (wanted := params["expectedTurnId"]):
            found = f"expected active turn id `{wanted}` but found `{active}`"
            raise Refused(found if active else "no active turn to steer")
        if method == "turn/interrupt" and active != (wanted := params["turnId"]):
            if active is None and thread.last is not None and thread.last.interrupted and thread.last.id == wanted:
                thread.late.append(request_id)
                raise Unanswered
            found = f"expected active turn id {wanted} but found {active}"
            raise Refused(found if active else "no active turn to interrupt")

    def initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to `initialize`."""
        self.client = params["clientInfo"]
        capabilities: dict[str, Any] = params.get("capabilities") or {}
        self.experimental = bool(capabilities.get("experimentalApi"))
        name, version = params["clientInfo"].get("name"), params["clientInfo"].get("version")
        agent = f"{name}/{VERSION} (Fake 1.0; x86_64) unknown ({name}; {version})"
        return {"userAgent": agent, "codexHome": codex_home(), "platformFamily": "unix", "platformOs": "linux"}

    def account(self) -> dict[str, Any]:
        """The answer to `account/read`."""
        wanted = bool(self.script.get("requires_openai_auth"))
        account = {"type": "apiKey"} if wanted and self.signed_in else None
        return {"account": account, "requiresOpenaiAuth": wanted, "workspaceRouting": None}

    def start(self, settings: Mapping[str, Any]) -> Thread:
        """A new thread."""
        return self._add(new_id(), settings, {})

    def resume(self, params: Mapping[str, Any]) -> Thread:
        """A thread that is here, or that a process with this CODEX_HOME has kept."""
        thread_id = str(params["threadId"])
        if thread_id in self.threads:
            return self.threads[thread_id]
        if not is_uuid(thread_id):
            raise Refused(f"invalid session id: {NO_UUID}")
        try:
            with open(os.path.join(codex_home(), "sessions", f"{thread_id}.json"), encoding="utf-8") as file:
                kept = json.load(file)
        except FileNotFoundError:
            raise Refused(f"no rollout found for thread id {thread_id}") from None
        thread = self._add(thread_id, params, kept["settings"])
        thread.tokens = kept["tokens"]
        return thread

    def _add(self, thread_id: str, asked: Mapping[str, Any], kept: Mapping[str, Any]) -> Thread:
        thread = self.threads[thread_id] = Thread(thread_id, asked, kept, str((self.client or {}).get("name")))
        return thread


def _opened(asked: Mapping[str, Any], word: str) -> tuple[str, dict[str, Any] | None]:
    """The sandbox of a thread, as a word, and its permission profile.

    A word wins over a profile; a resumed thread for which neither is asked gets the profile that its word stands for.
    """
    config: dict[str, Any] = asked.get("config") or {}
    name = config.get("default_permissions")
    if asked.get("sandbox") is not None:
        return word, None
    if name is None:
        return word, {"id": ":workspace", "extends": None} if word == "workspace-write" else None
    extends = config.get("permissions", {}).get(name, {}).get("extends")
    return PROFILES.get(extends or name, "read-only"), {"id": name, "extends": extends}


def is_uuid(text: Any) -> bool:
    """Whether a thread can have this id."""
    return isinstance(text, str) and len(text) == 36 and set(text) <= set("0123456789abcdefABCDEF-")


def codex_home() -> str:
    """The folder of configuration and sessions."""
    return os.path.realpath(os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex"))


def has_key() -> bool:
    """Whether an earlier process left a key there."""
    return os.path.exists(os.path.join(codex_home(), "auth.json"))


def _unknown(word: str, words: Iterable[str]) -> str:
    return f"Invalid request: unknown variant `{word}`, expected one of {', '.join(f'`{w}`' for w in words)}"


def _check_word(value: Any, words: tuple[str, ...]) -> None:
    if isinstance(value, str) and value not in words:
        raise Refused(_unknown(value, words))
    if isinstance(value, int):
        raise Refused(f"Invalid request: invalid type: integer `{value}`, expected string or map")


def _check_input(parts: list[dict[str, Any]]) -> None:
    for part in parts:
        _check_word(part.get("type"), INPUTS)
    characters = sum(len(part.get("text") or "") for part in parts)
    if characters > MOST_CHARACTERS:
        data = {"input_error_code": "input_too_large", "max_chars": MOST_CHARACTERS, "actual_chars": characters}
        message = f"Input exceeds the maximum length of {MOST_CHARACTERS} characters."
        raise Refused(message, INVALID_PARAMS, data)
