"""What the app-server asks, and what it is told, in the right shape of each kind."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from subagent_codex._answers import Answers
from subagent_codex._bounds import Bounds
from subagent_codex._turn import Turn
from subagent_codex.options import ApprovalPolicy, Sandbox
from subagent_process import JsonObject, RpcError
from subagents import (
    Choice,
    Failure,
    Link,
    OptionKind,
    Permission,
    PermissionEvent,
    PermissionRequest,
    Provider,
    Result,
    Task,
)

pytestmark = pytest.mark.anyio

COMMAND = "item/commandExecution/requestApproval"
FILES = "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
INPUT = "item/tool/requestUserInput"
ELICITATION = "mcpServer/elicitation/request"
IDS: JsonObject = {"threadId": "th", "turnId": "tu", "startedAtMs": 1}


class Engine(Provider):
    """A provider whose run is what a test says."""

    name = "engine"

    def __init__(self, body: Callable[[Link], Awaitable[object]]) -> None:
        self.body = body

    async def drive(self, task: Task, link: Link) -> None:
        link.ready()
        await self.body(link)
        link.finish(Result.completed("done"))


def unheard(*_: object) -> None:
    pass


def turn(cwd: str, *, plain: str = "plain", changes: Mapping[str, tuple[str, ...]] | None = None) -> Turn:
    """A turn in which one plain command and these file changes have been started."""
    made = Turn(unheard, accepted=unheard, ended=unheard, cwd=cwd)
    made.thread = "th"
    made.begin("tu")
    call = {"type": "function_call", "name": "exec_command", "call_id": plain, "arguments": '{"cmd":"true"}'}
    made.notified("rawResponseItem/completed", {**IDS, "item": call})
    for item, paths in (changes or {}).items():
        kinds = [{"path": path, "kind": {"type": "add"}, "diff": ""} for path in paths]
        started = {"type": "fileChange", "id": item, "changes": kinds, "status": "inProgress"}
        made.notified("item/started", {**IDS, "item": started})
    return made


class Asked:
    """One run in which requests are answered: what was said, and what was asked of whom."""

    def __init__(
        self,
        *requests: tuple[str, JsonObject],
        cwd: str = "/w",
        roots: tuple[str, ...] | None = None,
        policy: ApprovalPolicy = "on-request",
        sandbox: Sandbox = "workspace-write",
        network: bool = False,
        max_refusals: int = 100,
        changes: Mapping[str, tuple[str, ...]] | None = None,
        closed: bool = False,
        closed_paths: tuple[str, ...] = (),
    ) -> None:
        self.requests, self.closed = requests, closed
        self.turn = turn(cwd, changes=changes)
        self.bounds = Bounds(self.turn, policy, sandbox, (cwd,) if roots is None else roots, closed_paths, network)
        self.max_refusals = max_refusals
        self.answers: list[JsonObject] = []
        self.asked: list[PermissionRequest] = []
        self.gave_up: list[Failure] = []

    async def __call__(self, permission: Permission) -> list[JsonObject]:
        async def body(link: Link) -> None:
            answers = Answers(link, self.bounds, max_refusals=self.max_refusals, give_up=self.gave_up.append)
            if self.closed:
                answers.close()
            for method, params in self.requests:
                try:
                    self.answers.append(await answers.answer(method, {**IDS, **params}))
                except RpcError as error:
                    self.answers.append({"error": error.code})

        with anyio.fail_after(10):
            async with Engine(body).start("x", permission=permission) as run:
                await run.closed()
                async for event in run.events():
                    if isinstance(event, PermissionEvent) and event.choice is None:
                        self.asked.append(event.request)
        return self.answers


def yes(_: PermissionRequest) -> Choice:
    return Choice("allow_once")


def always(_: PermissionRequest) -> Choice:
    return Choice("allow_always")


def decision(word: object) -> JsonObject:
    return {"decision": word}


PLAIN: JsonObject = {"itemId": "plain", "command": "true", "cwd": "/w", "kind": "command"}
OTHER: JsonObject = {**PLAIN, "itemId": "unknown"}
WANTED: JsonObject = {"network": {"enabled": True}, "fileSystem": {"read": None, "write": ["/etc"]}}
TOOL: JsonObject = {
    "serverName": "s", "mode": "form", "message": "Run echo?", "requestedSchema": {"type": "object", "properties": {}},
    "_meta": {"codex_approval_kind": "mcp_tool_call"},
}  # fmt: skip
NO_PERMISSIONS: JsonObject = {"permissions": {}, "scope": "turn"}
DECLINED: JsonObject = {"action": "decline", "content": None}
CANCELLED: JsonObject = {"action": "cancel", "content": None}
ACCEPT, DECLINE, CANCEL = decision("accept"), decision("decline"), decision("cancel")
DENIED = decision({"denied": {"rejection": "the client refused"}})
NO_TOOL: JsonObject = {
    "contentItems": [{"type": "inputText", "text": "This client has no tool 'x'."}],
    "success": False,
}
OLD_COMMAND: JsonObject = {
    "conversationId": "th",
    "callId": "plain",
    "command": ["echo", "a b"],
    "cwd": "/w",
    "parsedCmd": [],
}
OLD_FILES: JsonObject = {"conversationId": "th", "callId": "c", "fileChanges": {"/w/a": {"type": "add", "content": ""}}}
QUESTIONS: JsonObject = {
    "itemId": "i", "isBlocking": True,
    "questions": [{"id": "q1", "header": "h", "question": "Which?"}, {"id": "q2", "header": "h", "question": "Why?"}],
}  # fmt: skip
NOBODY = "(Automatic answer: nobody is here to be asked. Decide yourself, and say in the end what you chose.)"
UNANSWERED: JsonObject = {"answers": {"q1": {"answers": [NOBODY]}, "q2": {"answers": [NOBODY]}}}

KINDS: dict[str, tuple[str, JsonObject, JsonObject, JsonObject, JsonObject, JsonObject]] = {
    # name: method, params, under "reject", under "allow", by a callback that says yes, once the run is ending
    "a plain command": (COMMAND, PLAIN, DECLINE, ACCEPT, ACCEPT, CANCEL),
    "another command": (COMMAND, OTHER, DECLINE, DECLINE, ACCEPT, CANCEL),
    "a file": (FILES, {"itemId": "in"}, DECLINE, ACCEPT, ACCEPT, CANCEL),
    "a file elsewhere": (FILES, {"itemId": "out"}, DECLINE, DECLINE, ACCEPT, CANCEL),
    "permissions": (
        PERMISSIONS, {"itemId": "i", "cwd": "/w", "permissions": WANTED, "reason": "to look"},
        NO_PERMISSIONS, NO_PERMISSIONS, {"permissions": WANTED, "scope": "turn"}, NO_PERMISSIONS,
    ),
    "questions": (INPUT, QUESTIONS, UNANSWERED, UNANSWERED, UNANSWERED, {"answers": {}}),
    "a tool of a server": (ELICITATION, TOOL, DECLINED, DECLINED, {"action": "accept", "content": {}}, CANCELLED),
    "a tool of ours": (
        "item/tool/call", {"callId": "c", "tool": "x", "arguments": {}}, NO_TOOL, NO_TOOL, NO_TOOL, NO_TOOL,
    ),
    "an old command": (
        "execCommandApproval", OLD_COMMAND, DENIED, decision("approved"), decision("approved"), decision("abort"),
    ),
    "old files": (
        "applyPatchApproval", OLD_FILES, DENIED, decision("approved"), decision("approved"), decision("abort"),
    ),
}  # fmt: skip
CHANGES = {"in": ("/w/a", "b/c"), "out": ("/w/a", "/etc/passwd")}


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_is_answered_in_its_own_words(kind: str) -> None:
    method, params, rejected, allowed, granted, ending = KINDS[kind]
    for permission, expected in (("reject", rejected), ("allow", allowed), (yes, granted)):
        assert await Asked((method, params), changes=CHANGES)(cast("Permission", permission)) == [expected]
    over = Asked((method, params), changes=CHANGES, closed=True)
    assert await over(yes) == [ending]
    assert over.asked == []


@pytest.mark.parametrize(
    ("method", "code"),
    [("brandNew/thing", -32601), ("account/chatgptAuthTokens/refresh", -32000), ("attestation/generate", -32000)],
)
@pytest.mark.parametrize("closed", [False, True])
async def test_what_cannot_be_answered_is_an_error_that_says_so(method: str, code: int, closed: bool) -> None:
    assert await Asked((method, {}), closed=closed)(yes) == [{"error": code}]


async def test_the_time_is_told_and_is_no_refusal() -> None:
    asked, before = Asked(("currentTime/read", {}), max_refusals=1), int(time.time())
    (answer,) = await asked("reject")
    assert before <= cast("int", answer["currentTimeAt"]) <= time.time()
    assert asked.gave_up == []


# -- what allow grants -------------------------------------------------------------------------------------------------

BEYOND: dict[str, tuple[bool, JsonObject, dict[str, Any]]] = {
    # what: beyond, params of a command, bounds
    "a plain command": (False, PLAIN, {}),
    "a plain command, read-only": (False, PLAIN, {"sandbox": "read-only"}),
    "one of which nothing is known": (True, OTHER, {}),
    "one without an id": (True, {"command": "true"}, {}),
    "one that is plain, where the engine runs it again outside": (True, PLAIN, {"policy": "untrusted"}),
    "one that is plain, read-only, likewise": (True, PLAIN, {"policy": "untrusted", "sandbox": "read-only"}),
    "input for a terminal": (True, {**PLAIN, "kind": "writeStdin"}, {}),
    "a kind of a later version": (True, {**PLAIN, "kind": "humanCommand"}, {}),
    "no kind, as older versions": (False, {"itemId": "plain", "command": "true"}, {}),
    "a part of a command": (True, {**PLAIN, "approvalId": "a"}, {}),
    "more permissions": (True, {**PLAIN, "additionalPermissions": {"network": {"enabled": True}}}, {}),
    "no more permissions": (False, {**PLAIN, "additionalPermissions": None}, {}),
    "the network": (True, {**PLAIN, "networkApprovalContext": {"host": "h", "protocol": "https"}}, {}),
    "the network, which is given": (
        False, {**PLAIN, "networkApprovalContext": {"host": "h", "protocol": "https"}}, {"network": True},
    ),
    "anything without a sandbox": (
        False,
        {**OTHER, "kind": "writeStdin", "additionalPermissions": {}, "approvalId": "a"},
        {"sandbox": "danger-full-access", "policy": "untrusted"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BEYOND)
async def test_allow_grants_a_command_that_stays_in_its_sandbox_and_no_other(what: str) -> None:
    beyond, params, bounds = BEYOND[what]
    asked = Asked((COMMAND, params), **bounds)
    assert await asked("allow") == [decision("decline" if beyond else "accept")]
    assert [request.beyond for request in asked.asked] == [beyond]
    assert await Asked((COMMAND, params), **bounds)(yes) == [ACCEPT]


@pytest.mark.parametrize("method", ["execCommandApproval", "applyPatchApproval"])
async def test_the_old_kinds_have_the_same_bounds(method: str) -> None:
    outside: JsonObject = {"callId": "c", "fileChanges": {"/w/a": {"type": "update", "move_path": "/etc/a"}}}
    asked = Asked((method, {**outside, "command": ["true"]}))
    assert await asked("allow") == [DENIED]
    assert asked.asked[0].beyond


async def test_permissions_and_tools_of_servers_are_granted_without_a_sandbox() -> None:
    permissions: JsonObject = {"permissions": WANTED}
    asked = Asked((PERMISSIONS, permissions), (ELICITATION, TOOL), sandbox="danger-full-access")
    assert await asked("allow") == [{"permissions": WANTED, "scope": "turn"}, {"action": "accept", "content": {}}]


PATHS: dict[str, tuple[bool, tuple[str, ...]]] = {
    "inside": (True, ("{w}/a", "{w}/b/c", "new/d")),
    "the folder itself": (True, ("{w}",)),
    "in a further root": (True, ("{r}/x",)),
    "through a link that stays inside": (True, ("{w}/inner/x",)),
    "through a link that leads out": (False, ("{w}/outer/x",)),
    "a link to a file elsewhere": (False, ("{w}/file",)),
    "one of two elsewhere": (False, ("{w}/a", "{o}/a")),
    "up and out": (False, ("{w}/../o/x",)),
    "up and out, relative": (False, ("../o/x",)),
    "up and in again": (True, ("{w}/../w/x",)),
    "beside it, with the same beginning": (False, ("{w}side/x",)),
    "git's own": (False, ("{w}/.git/hooks/pre-commit",)),
    "git's own, through a link": (False, ("{w}/gitlink/config",)),
    "a .git that is a file": (False, ("{w}/.git",)),
    "Codex's own": (False, ("{w}/.codex/config.toml",)),
    "agents' own": (False, ("{w}/sub/.agents/skills/x",)),
    "a root inside git's own": (True, ("{w}/.git/objects/aa/x",)),
    "closed in a root": (False, ("{w}/.git/objects/info/alternates",)),
    "below what is closed in a root": (False, ("{w}/.git/objects/info/alternates/x",)),
    "named like it": (True, ("{w}/.gitignore",)),
    "with a null character": (False, ("{w}/a\0b",)),
    "not known": (False, ()),
}


@pytest.mark.parametrize("what", PATHS)
async def test_allow_grants_a_change_of_files_that_the_sandbox_may_write_and_no_other(
    what: str, tmp_path: Path
) -> None:
    within, paths = PATHS[what]
    real, outside, more, link = tmp_path / "w", tmp_path / "o", tmp_path / "r", tmp_path / "link"
    for folder in (real / "in", real / ".git" / "objects", outside, more):
        folder.mkdir(parents=True)
    (outside / "x").touch()
    for name, target in {
        "inner": real / "in",
        "outer": outside,
        "file": outside / "x",
        "gitlink": real / ".git",
    }.items():
        (real / name).symlink_to(target)
    link.symlink_to(real)
    for cwd in (real, link):  # the folder may be reached through a link itself
        named = tuple(path.format(w=cwd, o=outside, r=more) for path in paths)
        roots = (str(cwd), str(more), str(cwd / ".git" / "objects"))
        closed = (str(cwd / ".git" / "objects" / "info" / "alternates"),)
        changes = {"i": named} if named else {}
        asked = Asked((FILES, {"itemId": "i"}), cwd=str(cwd), roots=roots, closed_paths=closed, changes=changes)
        assert await asked("allow") == [decision("accept" if within else "decline")]
        assert (asked.asked[0].paths, asked.asked[0].beyond) == (named, not within)


@pytest.mark.parametrize(
    ("sandbox", "roots", "root", "granted"),
    [
        ("read-only", ("/w",), None, False),
        ("danger-full-access", (), None, True),
        ("workspace-write", (), None, False),
        ("workspace-write", ("/w",), "/w/sub", True),
        ("workspace-write", ("/w",), "/", False),
        ("danger-full-access", (), "/", True),
    ],
)
async def test_a_granted_root_and_the_sandbox_bound_changes_of_files(
    sandbox: Sandbox, roots: tuple[str, ...], root: str | None, granted: bool
) -> None:
    asked = Asked((FILES, {"itemId": "in", "grantRoot": root}), sandbox=sandbox, roots=roots, changes={"in": ("/w/a",)})
    assert await asked("allow") == [decision("accept" if granted else "decline")]


async def test_unknown_paths_are_not_known_by_their_root() -> None:
    assert await Asked((FILES, {"itemId": "i", "grantRoot": "/w"}))("allow") == [DECLINE]


# -- what a callback is offered ----------------------------------------------------------------------------------------


LISTED: list[tuple[object, list[str]]] = [
    (None, ["allow_once", "reject_once"]),
    (["accept", {"acceptWithExecpolicyAmendment": {}}, "cancel"], ["allow_once", "reject_once"]),
    (["accept", "acceptForSession", "decline"], ["allow_once", "allow_always", "reject_once"]),
    ([{"applyNetworkPolicyAmendment": {}}, "cancel"], ["reject_once"]),
]


@pytest.mark.parametrize(("listed", "offered"), LISTED)
async def test_a_command_is_offered_as_the_engine_lists_it_and_no_is_always_offered(
    listed: object, offered: list[str]
) -> None:
    asked = Asked((COMMAND, {**PLAIN, "availableDecisions": listed}))
    once = await asked("allow")
    assert [option.kind for option in asked.asked[0].options] == offered
    assert once == [decision("accept" if "allow_once" in offered else "decline")]
    lasting = await Asked((COMMAND, {**PLAIN, "availableDecisions": listed}))(always)
    assert lasting == [decision("acceptForSession" if "allow_always" in offered else "decline")]


async def test_what_is_allowed_for_good_lasts_for_the_session_of_the_engine_where_it_takes_that() -> None:
    asked = Asked(
        (FILES, {"itemId": "in"}), (PERMISSIONS, {"permissions": WANTED}), (ELICITATION, TOOL), changes=CHANGES
    )
    assert await asked(always) == [decision("acceptForSession"), NO_PERMISSIONS, DECLINED]


async def test_people_are_told_what_it_is_about() -> None:
    network: JsonObject = {"host": "example.org", "protocol": "https"}
    asked = Asked(
        (COMMAND, {**PLAIN, "command": "echo 1\necho 2", "reason": "to see"}),
        (COMMAND, {**PLAIN, "kind": "writeStdin", "command": "y"}),
        (COMMAND, {**PLAIN, "networkApprovalContext": network}),
        (FILES, {"itemId": "out", "grantRoot": "/r"}),
        (FILES, {"itemId": "nothing"}),
        (PERMISSIONS, {"permissions": WANTED, "reason": "to look"}),
        (PERMISSIONS, {"permissions": WANTED}),
        (ELICITATION, TOOL),
        ("execCommandApproval", OLD_COMMAND),
        (COMMAND, {**PLAIN, "command": "x" * 5000}),
        changes=CHANGES,
    )
    await asked("reject")
    assert [(r.title, r.kind) for r in asked.asked[:-1]] == [
        ("Run: echo 1 echo 2", "execute"),
        ("Type into a running command: y", "execute"),
        ("Reach example.org (https)", "fetch"),
        ("Change /w/a, /etc/passwd, and grant /r", "edit"),
        ("Change files", "edit"),
        ("Grant more permissions for this turn: to look", "other"),
        ("Grant more permissions for this turn: network, fileSystem", "other"),
        ("s: Run echo?", "other"),
        ("Run: echo 'a b'", "execute"),
    ]
    assert (asked.asked[0].command, asked.asked[0].reason, asked.asked[0].id) == ("echo 1\necho 2", "to see", "plain")
    assert asked.asked[2].data["networkApprovalContext"] == network
    assert (len(asked.asked[-1].title), asked.asked[-1].title[-1]) == (160, "…")
    assert asked.asked[-1].command == "x" * 5000


ELICITED: dict[str, tuple[bool, JsonObject]] = {
    "a form without a field that must be filled": (True, {"mode": "form", "requestedSchema": {"required": []}}),
    "an open form": (True, {"mode": "openai/form", "requestedSchema": {}}),
    "the same, spelt otherwise": (True, {"mode": "openaiForm", "requestedSchema": True}),
    "a form with one": (False, {"mode": "form", "requestedSchema": {"required": ["name"]}}),
    "a page to open": (False, {"mode": "url", "url": "https://example.org", "elicitationId": "e"}),
    "a proof of presence": (False, {"mode": "openai/userVerification", "title": "Approve", "challenge": "c"}),
    "a mode of a later version": (False, {"mode": "new"}),
    "no mode": (False, {}),
    "a suggestion to install something": (
        False, {"mode": "form", "requestedSchema": {}, "_meta": {"codex_approval_kind": "tool_suggestion"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ELICITED)
async def test_a_server_is_told_yes_only_where_a_bare_yes_says_all_and_only_by_a_callback(what: str) -> None:
    answerable, params = ELICITED[what]
    asked = Asked((ELICITATION, {"serverName": "s", "message": "m", **params}))
    assert await asked(yes) == [{"action": "accept", "content": {}} if answerable else DECLINED]
    assert len(asked.asked) == answerable
    assert await Asked((ELICITATION, {"serverName": "s", "message": "m", **params}))("allow") == [DECLINED]


# -- who answers late, wrongly, or never -------------------------------------------------------------------------------


async def test_a_callback_that_fails_is_a_refusal() -> None:
    def broken(_: PermissionRequest) -> Choice:
        raise RuntimeError("no")

    assert await Asked((COMMAND, PLAIN))(broken) == [DECLINE]


@pytest.mark.parametrize("kind", ["allow_always", "reject_always"])
async def test_a_link_of_others_that_decides_what_was_not_offered_has_refused(kind: OptionKind) -> None:
    class Forwarding(Engine):
        async def drive(self, task: Task, link: Link) -> None:
            real = link.ask

            async def ask(request: PermissionRequest) -> Choice:
                return replace(await real(request), kind=kind)

            link.ask = ask
            await super().drive(task, link)

    answers: list[JsonObject] = []

    async def body(link: Link) -> None:
        told = Answers(link, Asked().bounds, max_refusals=100, give_up=unheard)
        answers.append(await told.answer(PERMISSIONS, {"permissions": WANTED}))

    with anyio.fail_after(10):
        async with Forwarding(body).start("x", permission="allow") as run:
            await run.closed()
    assert answers == [NO_PERMISSIONS]


async def test_the_end_of_the_run_answers_what_is_open_and_what_is_asked_again() -> None:
    answers: list[JsonObject] = []
    asked = anyio.Event()

    async def slow(_: PermissionRequest) -> Choice:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def body(link: Link) -> None:
        told = Answers(link, Asked().bounds, max_refusals=100, give_up=unheard)

        async def one() -> None:
            while len(answers) < 3:  # the engine asks again on every answer
                answers.append(await told.answer(COMMAND, PLAIN))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            await asked.wait()
            assert told.asking
            told.close()
        assert not told.asking

    with anyio.fail_after(10):
        async with Engine(body).start("x", permission=slow) as run:
            await run.closed()
    assert answers == [CANCEL] * 3


async def test_a_yes_that_comes_with_the_end_of_the_run_is_none() -> None:
    answers: list[JsonObject] = []

    async def body(link: Link) -> None:
        told = Answers(link, Asked().bounds, max_refusals=100, give_up=unheard)
        box.append(told)
        answers.append(await told.answer(COMMAND, PLAIN))

    def late(_: PermissionRequest) -> Choice:
        box[0].close()
        return Choice("allow_once")

    box: list[Answers] = []
    with anyio.fail_after(10):
        async with Engine(body).start("x", permission=late) as run:
            await run.closed()
    assert answers == [CANCEL]


async def test_cancelling_a_run_ends_its_callback_and_nothing_waits() -> None:
    asked, ended = anyio.Event(), anyio.Event()

    async def slow(_: PermissionRequest) -> Choice:
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    async def body(link: Link) -> None:
        await Answers(link, Asked().bounds, max_refusals=100, give_up=unheard).answer(COMMAND, PLAIN)

    with anyio.fail_after(10):
        async with Engine(body).start("x", permission=slow) as run:
            await asked.wait()
            run.cancel("enough")
            assert (await run.closed()).stop_reason == "aborted"
            await ended.wait()


async def test_after_so_many_refusals_the_run_is_given_up_once_and_the_turn_is_interrupted() -> None:
    requests: list[tuple[str, JsonObject]]
    requests = [(COMMAND, PLAIN), (FILES, {"itemId": "in"}), (INPUT, QUESTIONS), (COMMAND, OTHER), (COMMAND, PLAIN)]
    asked = Asked(*requests, max_refusals=4, changes=CHANGES)
    assert await asked("reject") == [
        DECLINE,
        DECLINE,
        UNANSWERED,
        CANCEL,
        CANCEL,
    ]
    (failure,) = asked.gave_up
    assert (failure.kind, failure.stage) == ("policy", "run")
    assert failure.message.startswith(
        "4 requests were refused, the last was: Run: true. Allow them (permission='allow'"
    )
    assert len(asked.asked) == 3


async def test_what_is_granted_is_no_refusal() -> None:
    asked = Asked(*[(COMMAND, PLAIN)] * 5, max_refusals=1)
    assert await asked("allow") == [ACCEPT] * 5
    assert asked.gave_up == []


async def test_no_secret_of_a_command_is_in_the_failure() -> None:
    secret = "sk-proj-" + "Ab3dE6gH9jK2mN5pQ8sT"
    asked = Asked((COMMAND, {**PLAIN, "command": f"curl -H 'Authorization: Bearer {secret}' x"}), max_refusals=1)
    await asked("reject")
    assert secret not in asked.gave_up[0].message


# -- whatever comes ----------------------------------------------------------------------------------------------------

HOSTILE: list[object] = [None, True, 0, -1.5, "", "x\0y", "../..", [], [None], ["a", 1, {}], {}, {"a": {"b": []}}]
NAMES = [
    *("itemId", "callId", "command", "cwd", "kind", "reason", "grantRoot", "approvalId", "permissions", "tool", "mode"),
    *("additionalPermissions", "availableDecisions", "networkApprovalContext", "questions", "serverName", "message"),
    *("requestedSchema", "_meta", "fileChanges"),
]
METHODS = [method for method, *_ in KINDS.values()]


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
async def test_whatever_the_params_hold_there_is_one_answer_and_allow_grants_nothing(value: object) -> None:
    params: JsonObject = dict.fromkeys(NAMES, value)
    requests = [(method, params) for method in METHODS]
    answers = await Asked(*requests, sandbox="read-only")("allow")
    assert len(answers) == len(requests)
    text = repr(answers)
    assert not any(word in text for word in ("'accept'", "'approved'", "allow"))


async def test_one_hostile_value_among_good_ones_is_borne() -> None:
    good: dict[str, JsonObject] = {method: params for method, params, *_ in KINDS.values()}
    requests = [(method, {**good[method], name: value}) for method in good for name in NAMES for value in HOSTILE]
    assert len(await Asked(*requests, max_refusals=10**6)("reject")) == len(requests)
