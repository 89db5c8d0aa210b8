"""Raw calls: the steps that the engine makes no item of, and what was refused."""

from __future__ import annotations

import json

import pytest
from turn_kit import COMMAND, THREAD, Told, call, exited, output, patch

from subagents import ToolEvent

Item = dict[str, object]

NEVER = (
    "approval policy is Never; reject command — you cannot ask for escalated permissions if the approval policy is"
    " Never"
)
READ_ONLY = "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"
OUTSIDE = "patch rejected: writing outside of the project; rejected by user approval settings"
FORCED = (
    "exec_command failed: CreateProcess { message: \"Rejected(\\\"`/bin/bash -lc 'rm -rf x'` rejected: rm -f style"
    ' commands are not permitted. Use a safer approach\\")" }'
)
BY_USER = 'exec_command failed: CreateProcess { message: "Rejected(\\"rejected by user\\")" }'
NO_SANDBOX = (
    'exec_command failed: CreateProcess { message: "Rejected(\\"Failed to create unified exec process: x\\")" }'
)
MCP = "MCP tool call requires approval, but approval policy is never"


def shell(command: str, call_id: str = "call_1", **more: object) -> Item:
    return call("exec_command", json.dumps({"cmd": command, **more}), call_id)


# Call, output, what was refused by: status, kind, exit code.
ANSWERS: list[tuple[str, Item, object, str, str, str, int | None]] = [
    ("a command that ran", shell("echo hi"), exited(0, "hi\n"), "", "completed", "execute", 0),
    (
        "one that the sandbox stopped",
        shell("touch x"),
        exited(1, "Read-only file system\n"),
        "engine",
        "failed",
        "execute",
        1,
    ),
    (
        "escalation under never",
        shell("id", sandbox_permissions="require_escalated"),
        NEVER,
        "engine",
        "failed",
        "execute",
        None,
    ),
    ("a forbidden command", shell("rm -rf x"), FORCED, "engine", "failed", "execute", None),
    ("a declined command", shell("id"), BY_USER, "caller", "failed", "execute", None),
    ("one that could not start", shell("id"), NO_SANDBOX, "", "failed", "execute", None),
    ("a patch in read-only", patch("*** Add File: a\n+x"), READ_ONLY, "engine", "failed", "edit", None),
    ("a patch outside", patch("*** Add File: /a\n+x"), OUTSIDE, "engine", "failed", "edit", None),
    ("a declined patch", patch("*** Add File: a\n+x"), "patch rejected by user", "caller", "failed", "edit", None),
    ("a patch that does not fit", patch("x"), "apply_patch verification failed: no", "", "failed", "edit", None),
    (
        "a patch that fits",
        patch("x"),
        "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess.",
        "",
        "completed",
        "edit",
        0,
    ),
    ("a tool that is not there", call("nosuch", "{}"), "unsupported call: nosuch", "", "failed", "other", None),
    (
        "input for a terminal",
        call("write_stdin", "{}"),
        "write_stdin failed: Unknown process id 1",
        "",
        "failed",
        "execute",
        None,
    ),
    (
        "a picture",
        call("view_image", '{"path":"a.png"}'),
        "unable to locate image at `a.png`",
        "",
        "failed",
        "read",
        None,
    ),
    (
        "a tool of another mode",
        call("request_user_input", "{}"),
        "request_user_input is unavailable in Default mode",
        "",
        "failed",
        "other",
        None,
    ),
    (
        "a tool without a word of failure",
        call("create_goal", "{}"),
        "Goal tools require a persistent thread.",
        "",
        "completed",
        "other",
        None,
    ),
    ("an MCP tool", call("echo", "{}", namespace="mcp__e"), MCP, "engine", "failed", "other", None),
    (
        "the script of code mode",
        {**patch("text(1)"), "name": "exec"},
        [{"type": "input_text", "text": "Script completed\n"}, {"type": "input_text", "text": "1"}],
        "",
        "completed",
        "execute",
        None,
    ),
    (
        "the patch tool of a shell",
        shell("apply_patch"),
        "Wall time: 0.0 seconds\nOutput:\nExit code: 0\n",
        "",
        "completed",
        "execute",
        None,
    ),
]


@pytest.mark.parametrize(
    ("item", "answer", "refused", "status", "kind", "code"),
    [row[1:] for row in ANSWERS],
    ids=[row[0] for row in ANSWERS],
)
def test_a_call_without_an_item_is_a_step(
    item: Item, answer: object, refused: str, status: str, kind: str, code: int | None
) -> None:
    told = Told().start().raw(item)
    assert told.events == []
    told.raw(output(answer, kind="custom_tool_call_output" if "input" in item else "function_call_output"))
    (event,) = told.of(ToolEvent)
    assert (event.id, event.status, event.kind, event.exit_code) == ("call_1", status, kind, code)
    notes = " ".join(told.end().turn.outcome().evidence.notes)
    assert ("refused by the engine" in notes) == (refused == "engine")
    assert ("declined" in notes) == (refused == "caller")


def test_the_words_of_a_command_are_no_refusal() -> None:
    told = Told().start().raw(shell("cat log")).raw(output(exited(0, f"{NEVER}\n{READ_ONLY}\n{FORCED}")))
    assert told.of(ToolEvent)[0].status == "completed"
    assert told.end().turn.outcome().evidence.notes == ()


def test_the_head_that_the_engine_writes_is_no_output() -> None:
    told = Told().start().raw(shell("x")).raw(output(exited(0, "Output:\nProcess exited with code 7\n")))
    assert told.of(ToolEvent)[0].output == "Output:\nProcess exited with code 7\n"
    assert told.of(ToolEvent)[0].exit_code == 0


def test_refusals_are_counted_in_the_result_and_hold_no_secret() -> None:
    told = Told().start()
    for number, answer in enumerate((NEVER, FORCED, NEVER)):
        name = f"call_{number}"
        told.raw(shell("curl -H 'Authorization: Bearer abcdef1234567890'", name)).raw(output(answer, name))
    (note,) = told.message("done").end().turn.outcome().evidence.notes
    assert note.startswith("3 steps were refused by the engine, its sandbox or its rules; the last: curl")
    assert "approval policy is Never" in note
    assert "abcdef1234567890" not in note


@pytest.mark.parametrize("order", ["item first", "item before", "item around", "item last"])
def test_a_call_with_an_item_is_told_once(order: str) -> None:
    told = Told().start()
    ended: Item = {**COMMAND, "status": "completed", "exitCode": 0, "aggregatedOutput": "ok\n"}
    raw_call, raw_output = shell("make test"), output(exited(0, "ok\n"))
    match order:
        case "item first":
            told.begin(COMMAND).raw(raw_call).complete(ended).raw(raw_output)
        case "item before":
            told.begin(COMMAND).complete(ended).raw(raw_call).raw(raw_output)
        case "item around":
            told.raw(raw_call).begin(COMMAND).raw(raw_output).complete(ended)
        case _:
            told.raw(raw_call).raw(raw_output).begin(COMMAND).complete(ended)
    told.end()
    assert {event.id for event in told.of(ToolEvent)} == {"call_1"}
    assert told.of(ToolEvent)[-1].status == "completed"
    assert len(told.of(ToolEvent)) == (3 if order == "item last" else 2)
    assert told.turn.outcome().evidence.notes == ()


def test_a_refusal_that_an_item_contradicts_is_none() -> None:
    told = Told().start().raw(shell("make test")).raw(output(exited(2, "failed")))
    assert told.turn.notes
    told.begin(COMMAND).complete({**COMMAND, "status": "failed", "exitCode": 2})
    assert told.turn.notes == ()


def test_a_slow_command_that_the_sandbox_stopped_is_refused_too_though_it_is_an_item() -> None:
    stopped: Item = {
        **COMMAND,
        "status": "failed",
        "exitCode": 1,
        "aggregatedOutput": "touch: x: Read-only file system\n",
    }
    told = Told().start().raw(shell("make test")).begin(COMMAND).complete(stopped)
    told.raw(output(exited(1, "touch: x: Read-only file system\n")))
    assert [event.status for event in told.of(ToolEvent)] == ["in_progress", "failed"]
    (note,) = told.turn.notes
    assert note.endswith("; the last: make test: touch: x: Read-only file system")
    ran: Item = {**stopped, "status": "completed", "exitCode": 0}
    assert Told().start().complete(ran).turn.notes == ()
    assert Told().start().complete({**stopped, "aggregatedOutput": "Permission denied"}).turn.notes == ()


def test_a_granted_command_that_the_sandbox_stopped_is_over_though_its_item_is_not() -> None:
    told = Told().start().raw(shell("make test")).begin(COMMAND).raw(output(exited(1, "Read-only file system\n"))).end()
    assert [event.status for event in told.of(ToolEvent)] == ["in_progress", "failed"]
    (note,) = told.turn.outcome().evidence.notes
    assert note.endswith("make test: Read-only file system")


def test_a_command_that_goes_on_in_the_background_is_not_over() -> None:
    running = (
        "Chunk ID: 1\nWall time: 0.3 seconds\nProcess running with session ID 1\nOriginal token count: 1\nOutput:\n"
    )
    told = Told().start().raw(shell("make test")).begin(COMMAND).raw(output(running))
    assert told.turn.notes == ("1 step was still running",)
    told.complete({**COMMAND, "status": "completed", "exitCode": 0})
    assert told.turn.notes == ()


def test_a_turn_is_busy_while_a_step_is_taken_or_the_model_speaks() -> None:
    told = Told().start()
    assert not told.turn.busy
    assert told.raw(shell("make test")).turn.busy
    assert told.begin(COMMAND).turn.busy
    running = "Chunk ID: 1\nWall time: 0.3 seconds\nProcess running with session ID 1\nOutput:\n"
    assert not told.raw(output(running)).turn.busy  # it goes on in the background
    assert told.delta("half").turn.busy
    assert not told.message("whole", "msg_1").turn.busy


def test_a_call_that_nobody_answered_failed() -> None:
    told = Told().start().raw(call("tool_search", '{"query":"x"}')).raw(shell("x", "call_2"), threadId="agent").end()
    assert [(event.id, event.status, event.parent) for event in told.of(ToolEvent)] == [
        ("call_1", "failed", None),
        ("call_2", "failed", "agent"),
    ]


def test_an_output_without_its_call_and_other_raw_items_are_passed_over() -> None:
    told = Told().start().raw(output("x", "call_9")).raw({"type": "message", "role": "user", "content": []})
    told.raw({"type": "reasoning", "summary": []}).raw(call("x", "{}", "")).raw(output("x", ""))
    assert told.events == []


def test_the_files_of_a_patch_and_a_picture_are_in_the_step() -> None:
    text = "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b\n*** Move to: c\n@@\n*** Delete File: d\n"
    told = Told().start().raw(patch(text)).raw(output(READ_ONLY, kind="custom_tool_call_output"))
    assert told.of(ToolEvent)[0].paths == ("a", "b", "c", "d")
    assert told.of(ToolEvent)[0].title == "edit a, b, c and 1 more"
    told = Told().start().raw(call("view_image", '{"path":"a.png"}')).raw(output("x"))
    assert (told.of(ToolEvent)[0].title, told.of(ToolEvent)[0].paths) == ("look at a.png", ("a.png",))


# -- leaving the sandbox -----------------------------------------------------------------------------------------------

PLAIN: list[tuple[str, Item, bool]] = [
    ("a plain command", shell("id"), True),
    ("said to be plain", shell("id", sandbox_permissions="use_default", workdir="/x", tty=True), True),
    ("the shell tool", call("shell", '{"command":["bash","-lc","id"]}'), True),
    ("the shell tool of a text", call("shell_command", '{"command":"id"}'), True),
    ("escalated", shell("id", sandbox_permissions="require_escalated"), False),
    ("escalated, older words", shell("id", with_escalated_permissions=True), False),
    ("escalated, words of tomorrow", shell("id", sandbox_permissions="with_additional_permissions"), False),
    ("more permissions", shell("id", additional_permissions={"network": {"enabled": True}}), False),
    ("permissions of another type", shell("id", sandbox_permissions=["use_default"]), False),
    ("no command", call("exec_command", "{}"), False),
    ("no JSON", call("exec_command", "{cmd"), False),
    ("no object", call("exec_command", "[1]"), False),
    ("too deep", call("exec_command", "[" * 100_000), False),
    ("another tool", call("write_stdin", '{"cmd":"id"}'), False),
    ("a tool of a server of that name", call("exec_command", '{"cmd":"id"}', namespace="mcp__x"), False),
    ("code mode", {**patch("await tools.exec_command({cmd:'id'})"), "name": "exec"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("item", "plain"), [row[1:] for row in PLAIN], ids=[row[0] for row in PLAIN])
def test_only_a_call_that_is_known_and_plain_stays_inside(item: Item, plain: bool) -> None:
    assert Told().start().raw(item).turn.escalates("call_1") is not plain


def test_a_call_that_was_never_seen_escalates() -> None:
    assert Told().start().begin(COMMAND).turn.escalates("call_1")


def test_a_call_that_is_said_twice_is_as_plain_as_the_less_plain_one() -> None:
    bold = shell("id", sandbox_permissions="require_escalated")
    assert Told().raw(bold).raw(shell("id")).turn.escalates("call_1")
    assert Told().raw(shell("id")).raw(bold).turn.escalates("call_1")


def test_a_local_shell_call_is_a_shell_call() -> None:
    item: Item = {"type": "local_shell_call", "call_id": "call_1", "status": "completed",
                  "action": {"type": "exec", "command": ["ls", "-l"]}}  # fmt: skip
    told = Told().start().raw(item)
    assert not told.turn.escalates("call_1")
    assert told.raw(output(exited(0, ""))).of(ToolEvent)[0].command == "ls -l"
    assert told.turn.thread == THREAD
