"""Items of a thread as steps: kinds, states, paths, and how much of an output is kept."""

from __future__ import annotations

import pytest
from turn_kit import COMMAND, CWD, Told

from subagent_codex._items import step
from subagents import ToolEvent
from subagents.backend.values import OUTPUT_BYTES, listed, number_in, one_line, tail

Item = dict[str, object]


def action(kind: str, command: str, **more: object) -> Item:
    return {"type": kind, "command": command, **more}


def change(path: str, kind: str = "update", to: str | None = None) -> Item:
    return {"path": f"{CWD}/{path}", "kind": {"type": kind, "move_path": to and f"{CWD}/{to}"}, "diff": "@@"}


def file_change(*changes: Item, status: str = "completed") -> Item:
    return {"type": "fileChange", "id": "call_1", "changes": list(changes), "status": status}


def told(item: Item, *, over: bool = True) -> ToolEvent:
    return step(item, over=over, cwd=CWD, parent=None)


# -- commands ----------------------------------------------------------------------------------------------------------

COMMANDS: list[tuple[list[Item], str, str, tuple[str, ...]]] = [
    ([action("unknown", "make test")], "execute", "make test", ()),
    ([action("read", "cat a", name="a", path=f"{CWD}/a")], "read", "cat a", (f"{CWD}/a",)),
    ([action("search", "rg one .", query="one", path=".")], "search", "rg one .", (".",)),
    ([action("listFiles", "ls", path=None)], "search", "ls", ()),
    ([action("read", "cat a", path="a"), action("read", "cat b", path="b")], "read", "sh -c x", ("a", "b")),
    ([action("read", "cat a", path="a"), action("search", "rg x", path="a")], "search", "sh -c x", ("a",)),
    ([action("read", "cat a", path="a"), action("unknown", "make")], "execute", "sh -c x", ("a",)),
    ([action("tomorrow", "x")], "execute", "x", ()),
    ([], "execute", "sh -c x", ()),
]


@pytest.mark.parametrize(("actions", "kind", "title", "paths"), COMMANDS)
def test_what_a_command_does_is_read_off_its_actions(
    actions: list[Item], kind: str, title: str, paths: tuple[str, ...]
) -> None:
    event = told({**COMMAND, "command": "sh -c x", "commandActions": actions, "status": "completed"})
    assert (event.kind, event.title, event.paths) == (kind, title, paths)
    assert event.command == "sh -c x"


STATES: list[tuple[object, str, str]] = [
    ("inProgress", "in_progress", "in_progress"),
    ("completed", "completed", "completed"),
    ("failed", "failed", "failed"),
    ("declined", "failed", "failed"),
    ("interrupted", "failed", "failed"),
    ("tomorrow", "in_progress", "failed"),
    (7, "failed", "failed"),
    (None, "in_progress", "completed"),
]


@pytest.mark.parametrize(("status", "begun", "over"), STATES)
def test_a_state_that_is_not_known_never_says_that_it_was_done(status: object, begun: str, over: str) -> None:
    item: Item = {**COMMAND, "status": status}
    assert told(item, over=False).status == begun
    assert told(item).status == over


def test_a_command_tells_its_exit_code_and_the_end_of_its_output() -> None:
    lines = "".join(f"line {number}\n" for number in range(2000))
    event = told({**COMMAND, "status": "failed", "exitCode": 2, "aggregatedOutput": lines})
    assert event.exit_code == 2
    assert event.output.endswith("line 1999\n")
    assert len(event.output) == OUTPUT_BYTES


def test_a_running_command_tells_more_of_its_output_each_time() -> None:
    run = Told().start().begin(COMMAND)
    for text in ("1\n", "2\n", "x" * 9000):
        run.say("item/commandExecution/outputDelta", itemId="call_1", delta=text)
    run.say("item/commandExecution/outputDelta", itemId="never begun", delta="?")
    run.complete({**COMMAND, "status": "completed", "exitCode": 0, "aggregatedOutput": "1\n2\n"})
    run.say("item/commandExecution/outputDelta", itemId="call_1", delta="late")
    outputs = [event.output for event in run.of(ToolEvent)]
    assert outputs == ["", "1\n", "1\n2\n", "x" * 4096, "1\n2\n"]
    assert {event.id for event in run.of(ToolEvent)} == {"call_1"}
    assert [event.status for event in run.of(ToolEvent)] == ["in_progress"] * 4 + ["completed"]


def test_a_command_that_the_turn_leaves_running_is_in_the_notes() -> None:
    assert Told().start().begin(COMMAND).end().turn.outcome().evidence.notes == ("1 step was still running",)


# -- changes of files --------------------------------------------------------------------------------------------------

CHANGES: list[tuple[list[Item], str, str]] = [
    ([change("new.txt", "add")], "edit", "edit new.txt"),
    ([change("gone.txt", "delete")], "delete", "delete gone.txt"),
    ([change("a", to="b")], "move", "move a, b"),
    ([change("a", "delete"), change("b", "add")], "edit", "edit a, b"),
    ([change("a", to="b"), change("c")], "edit", "edit a, b, c"),
    ([change(name) for name in "abcde"], "edit", "edit a, b, c and 2 more"),
    ([], "edit", "edit files"),
]


@pytest.mark.parametrize(("changes", "kind", "title"), CHANGES)
def test_a_change_of_files_says_what_sort_it_is(changes: list[Item], kind: str, title: str) -> None:
    event = told(file_change(*changes))
    assert (event.kind, event.title, event.status) == (kind, title, "completed")
    assert all(path.startswith(f"{CWD}/") for path in event.paths)


def test_the_files_of_a_change_are_known_while_it_is_asked_about() -> None:
    run = Told().start().begin(file_change(change("a", to="b"), change("c"), change("c"), status="inProgress"))
    assert run.turn.change_paths("call_1") == (f"{CWD}/a", f"{CWD}/b", f"{CWD}/c")
    assert run.turn.change_paths("call_2") == ()
    run.say("item/fileChange/patchUpdated", itemId="call_1", changes=[change("d")])
    assert run.turn.change_paths("call_1") == (f"{CWD}/d",)


def test_a_declined_step_failed_and_is_in_the_notes() -> None:
    run = Told().start().begin(file_change(change("a"), status="inProgress"))
    run.complete(file_change(change("a"), status="declined")).end()
    assert run.of(ToolEvent)[-1].status == "failed"
    assert run.turn.outcome().evidence.notes == ("1 step was declined when the engine asked for permission",)


# -- everything else ---------------------------------------------------------------------------------------------------

OTHERS: list[tuple[Item, ToolEvent]] = [
    (
        {
            "type": "mcpToolCall",
            "server": "e",
            "tool": "echo",
            "status": "completed",
            "error": None,
            "result": {"content": [{"type": "text", "text": "echo"}, {"type": "image"}, "x"]},
        },
        ToolEvent("i", "e: echo", "other", "completed", output="echo\n"),
    ),
    (
        {"type": "mcpToolCall", "server": "e", "tool": "echo", "status": "failed", "error": {"message": "no"}},
        ToolEvent("i", "e: echo", "other", "failed", output="no"),
    ),
    (
        {
            "type": "dynamicToolCall",
            "tool": "submit",
            "status": "completed",
            "success": True,
            "contentItems": [{"type": "inputText", "text": "did it"}],
        },
        ToolEvent("i", "submit", "other", "completed", output="did it"),
    ),
    (
        {"type": "dynamicToolCall", "tool": "", "status": "completed", "success": False, "contentItems": None},
        ToolEvent("i", "a tool of the client", "other", "failed"),
    ),
    (
        {"type": "collabAgentToolCall", "tool": "wait", "status": "completed", "prompt": None, "agentsStates": {}},
        ToolEvent("i", "wait", "other", "completed"),
    ),
    (
        {"type": "subAgentActivity", "kind": "started", "agentPath": "/root/a", "agentThreadId": "t2"},
        ToolEvent("t2", "agent /root/a", "other", "in_progress"),
    ),
    (
        {"type": "subAgentActivity", "kind": "interrupted", "agentPath": "/root/a", "agentThreadId": "t2"},
        ToolEvent("t2", "agent /root/a", "other", "failed"),
    ),
    (
        {"type": "subAgentActivity", "kind": "completed", "agentPath": "/root/a", "agentThreadId": ""},
        ToolEvent("i", "agent /root/a", "other", "completed"),
    ),
    (
        {"type": "webSearch", "query": "q", "action": {"type": "search", "query": "what", "queries": ["a"]}},
        ToolEvent("i", "what", "search", "completed"),
    ),
    (
        {"type": "webSearch", "query": "", "action": {"type": "search", "query": None, "queries": ["a", "b"]}},
        ToolEvent("i", "a, b", "search", "completed"),
    ),
    (
        {"type": "webSearch", "query": "q", "action": {"type": "openPage", "url": "https://x.example/"}},
        ToolEvent("i", "https://x.example/", "fetch", "completed"),
    ),
    ({"type": "webSearch", "query": "", "action": None}, ToolEvent("i", "the web", "search", "completed")),
    (
        {"type": "imageView", "path": f"{CWD}/a.png"},
        ToolEvent("i", "look at a.png", "read", "completed", paths=(f"{CWD}/a.png",)),
    ),
    (
        {
            "type": "imageGeneration",
            "status": "completed",
            "revisedPrompt": "a cat",
            "savedPath": "/p.png",
            "result": "",
        },
        ToolEvent("i", "make an image: a cat", "other", "completed", paths=("/p.png",)),
    ),
    (
        {
            "type": "imageGeneration",
            "status": "completed",
            "failure": {"type": "usageLimitExceeded"},
            "savedPath": None,
        },
        ToolEvent("i", "make an image:", "other", "failed", output="usageLimitExceeded"),
    ),
    ({"type": "sleep", "durationMs": 1500}, ToolEvent("i", "wait 1.5 s", "other", "completed")),
    (
        {"type": "functionCallOutput", "name": "t", "output": [{"type": "input_text", "text": "out"}]},
        ToolEvent("i", "t", "other", "completed", output="out"),
    ),
    (
        {"type": "functionCallOutput", "name": "", "output": "out"},
        ToolEvent("i", "a tool", "other", "completed", output="out"),
    ),
    ({"type": "of tomorrow", "status": "completed"}, ToolEvent("i", "of tomorrow", "other", "completed")),
]


@pytest.mark.parametrize(("item", "event"), OTHERS)
def test_every_sort_of_item_is_a_step(item: Item, event: ToolEvent) -> None:
    assert told({"id": "i", **item}) == event
    assert Told().start().complete({"id": "i", **item}).events == [event]


def test_the_progress_of_a_tool_is_a_line_of_its_output() -> None:
    item: Item = {"type": "mcpToolCall", "id": "i", "server": "e", "tool": "t", "status": "inProgress"}
    run = Told().start().begin(item).say("item/mcpToolCall/progress", itemId="i", message="half")
    assert run.of(ToolEvent)[-1].output == "half\n"


@pytest.mark.parametrize("kind", ["userMessage", "hookPrompt", "enteredReviewMode", "exitedReviewMode"])
def test_items_that_say_nothing_new_are_passed_over(kind: str) -> None:
    item: Item = {"type": kind, "id": "i", "content": []}
    assert Told().start().begin(item).complete(item).events == []


# -- texts -------------------------------------------------------------------------------------------------------------


def test_the_end_of_a_text_is_cut_at_a_character() -> None:
    assert tail("é" * 5000) == "é" * 2048
    assert tail("x" + "€" * 5000) == "€" * 1365
    assert tail("\ud800" * 10) == "?" * 10


def test_a_title_is_one_short_line() -> None:
    assert one_line("  a\n\tb  ") == "a b"
    assert one_line("x" * 1000) == "x" * 159 + "…"
    assert listed(["a"]) == "a"


def test_a_number_beyond_64_bits_is_none() -> None:
    assert number_in({"n": 2**63 - 1}, "n") == 2**63 - 1
    assert number_in({"n": 2**63}, "n") is None
    assert number_in({"n": True}, "n") is None
