"""A turn: what ends it, what its answer is, what it used."""

from __future__ import annotations

import pytest
from turn_kit import THREAD, TURN, Told, error, message

from subagents import (
    NoticeEvent,
    PlanEntry,
    PlanEvent,
    TextEvent,
    ThoughtEvent,
)

# -- what begins and ends it -----------------------------------------------------------------------------------------


def test_the_task_is_accepted_once_by_whichever_comes_first() -> None:
    told = Told().start()
    assert (told.turn.id, told.moments) == (TURN, ["accepted"])
    told.turn.begin(TURN)
    assert told.moments == ["accepted"]
    told = Told()
    told.turn.begin(TURN)
    told.start()
    assert (told.turn.id, told.turn.accepted, told.moments) == (TURN, True, ["accepted"])


def test_an_end_before_the_answer_to_turn_start_is_the_end() -> None:
    told = Told().message("the answer").end()
    told.turn.begin(TURN)
    assert told.moments == ["accepted", "ended"]
    assert told.turn.outcome().ok
    assert told.turn.outcome().output == "the answer"
    assert told.turn.outcome().session == THREAD


def test_neither_a_retry_nor_an_idle_thread_nor_a_final_answer_is_the_end() -> None:
    told = Told().start().say("error", error=error("Reconnecting... 1/5"), willRetry=True)
    told.say("error", error=error("gone"), willRetry=False)
    told.say("thread/status/changed", status={"type": "idle"}).say(
        "thread/status/changed", status={"type": "systemError"}
    )
    told.message("first", "m1", "final_answer")
    assert not told.turn.ended
    told.message("second", "m2").end()
    assert told.turn.outcome().output == "first"
    assert told.moments == ["accepted", "ended"]


@pytest.mark.parametrize(
    "params",
    [
        {"threadId": "another"},
        {"threadId": 7},
        {"threadId": [THREAD]},
        {"turn": {"id": "another", "status": "completed"}},
        {"turn": {"id": 7, "status": "completed"}},
        {"turn": "completed"},
        {"turn": None},
    ],
)
def test_the_end_of_something_else_is_not_the_end(params: dict[str, object]) -> None:
    told = Told().start()
    told.say("turn/completed", **{"turn": {"id": TURN, "status": "completed"}, **params})
    assert not told.turn.ended
    told.end()
    assert told.turn.ended


def test_only_the_first_end_counts() -> None:
    told = Told().start().message("x").end().end("failed", error("late"))
    assert told.turn.outcome().ok
    assert told.moments == ["accepted", "ended"]


def test_a_later_answer_names_the_turn() -> None:
    told = Told().say("turn/started", turn={"id": "of a goal"})
    told.turn.begin(TURN)
    told.say("turn/completed", turn={"id": "of a goal", "status": "completed"})
    assert not told.turn.ended
    told.end()
    assert told.turn.ended


def test_an_interrupted_turn_is_aborted_with_what_there_was() -> None:
    told = Told().start().delta("half a").end("interrupted", error("stopped"))
    result = told.turn.outcome()
    assert (result.stop_reason, result.output, result.failure) == ("aborted", "half a", None)
    assert result.evidence.notes == ("the engine said: stopped",)
    assert result.evidence.terminal == "turn/completed"
    assert Told().start().end("interrupted").turn.outcome().evidence.notes == ()


@pytest.mark.parametrize("status", ["inProgress", "new", "", None, 7])
def test_an_end_with_a_status_that_is_none_is_an_error(status: object) -> None:
    told = Told().start().message("x")
    told.say("turn/completed", turn={"id": TURN, "status": status})
    failure = told.turn.outcome().failure
    assert failure is not None
    assert failure.kind == "protocol"
    assert told.turn.outcome().output == "x"


def test_a_failed_turn_without_a_reason_takes_the_last_error() -> None:
    told = Told().start().say("error", error=error("no", "cyberPolicy"), willRetry=False).end("failed")
    assert told.turn.outcome().stop_reason == "refusal"


def test_a_thread_that_is_not_known_yet_is_the_own_one() -> None:
    told = Told(thread=None).start().message("early").end()
    assert told.turn.outcome().output == "early"
    assert told.of(TextEvent)[0].parent is None


# -- the answer ------------------------------------------------------------------------------------------------------

ANSWERS: list[tuple[str, list[tuple[str | None, str]], str]] = [
    ("the last without a phase", [(None, "a"), (None, "b")], "b"),
    ("a final answer, whatever follows", [("final_answer", "a"), ("commentary", "b"), (None, "c")], "a"),
    ("the last final answer", [("final_answer", "a"), ("final_answer", "b")], "b"),
    ("none without a phase", [("commentary", "a"), ("partial_answer", "b")], "b"),
    ("one without a phase before commentary", [(None, "a"), ("commentary", "b")], "a"),
    ("a phase of tomorrow is no answer", [(None, "a"), ("epilogue", "b")], "a"),
    ("nothing was said", [], ""),
]


@pytest.mark.parametrize(("messages", "answer"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_the_answer_is_one_message(messages: list[tuple[str | None, str]], answer: str) -> None:
    told = Told().start()
    for number, (phase, text) in enumerate(messages):
        told.message(text, f"m{number}", phase)
    assert told.end().turn.outcome().output == answer


def test_a_message_is_told_in_its_pieces_and_not_again() -> None:
    told = Told().start().message("hello world").end(items=[message("msg_1", "hello world")])
    assert [(event.id, event.text) for event in told.of(TextEvent)] == [("msg_1", "hello"), ("msg_1", " world")]
    assert told.turn.outcome().output == "hello world"


@pytest.mark.parametrize(
    ("deltas", "whole", "told_then"),
    [([], "all of it", ["all of it"]), (["all "], "all of it", ["of it"]), (["other"], "all of it", []), ([], "", [])],
)
def test_what_no_delta_told_is_told_at_the_end_of_a_message(
    deltas: list[str], whole: str, told_then: list[str]
) -> None:
    told = Told().start()
    for text in deltas:
        told.delta(text)
    told.complete(message("msg_1", whole))
    assert [event.text for event in told.of(TextEvent)] == deltas + told_then
    assert told.end().turn.outcome().output == whole


def test_a_message_that_only_the_end_of_the_turn_holds_is_told_and_is_the_answer() -> None:
    told = Told().start().message("so far", "m0", "commentary").end(items=[message("m1", "all"), {"type": "x"}, 7])
    assert told.of(TextEvent)[-1] == TextEvent("all", "m1")
    assert told.turn.outcome().output == "all"


def test_a_message_that_never_was_complete_is_better_than_none() -> None:
    assert Told().start().delta("half").end().turn.outcome().output == "half"
    assert Told().start().message("whole", "m0", "commentary").delta("half").end().turn.outcome().output == "whole"


def test_the_phase_of_a_message_may_be_said_at_its_beginning_only() -> None:
    told = (
        Told().start().begin(message("m1", "", "final_answer")).complete(message("m1", "answer")).message("after", "m2")
    )
    assert told.end().turn.outcome().output == "answer"


def test_messages_of_two_items_are_told_apart_when_their_pieces_alternate() -> None:
    told = Told().start().delta("a", "m1").delta("x", "m2").delta("b", "m1").delta("y", "m2")
    told.complete(message("m1", "ab")).complete(message("m2", "xy"))
    assert [(event.id, event.text) for event in told.of(TextEvent)] == [
        ("m1", "a"),
        ("m2", "x"),
        ("m1", "b"),
        ("m2", "y"),
    ]


def cut(told: Told, item: str, attempt: int) -> Told:
    """A stream that is cut: the partial message is completed, and the engine connects anew."""
    told.message("partial text", item)
    words = f"Reconnecting... {attempt}/5"
    return told.say("error", error=error(words, {"responseStreamDisconnected": {}}, "stream cut"), willRetry=True)


def test_a_stream_that_is_cut_six_times_gives_its_partial_answer_once() -> None:
    told = Told().start()
    for attempt in range(1, 6):
        cut(told, f"m{attempt}", attempt)
    told.message("partial text", "m6").end("failed", error("stream disconnected before completion: cut"))
    result = told.turn.outcome()
    assert result.output == "partial text"
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == ("network", True)
    assert [event.code for event in told.of(NoticeEvent)] == ["retry"] * 5


def test_an_attempt_that_was_repeated_is_no_answer() -> None:
    told = Told().start().message("final, half", "m1", "final_answer")
    told.say("error", error=error("Reconnecting... 1/5"), willRetry=True)
    assert told.message("hm", "m2", "commentary").end().turn.outcome().output == "hm"


def test_what_came_before_the_attempt_stays() -> None:
    told = Told().start().message("the answer", "m1", "final_answer").use([100, 20, 40, 0, 5])
    assert cut(told, "m2", 1).message("again", "m3").end().turn.outcome().output == "the answer"


def test_what_a_repeated_attempt_said_is_better_than_nothing_when_the_turn_fails() -> None:
    told = cut(Told().start(), "m1", 1).end("failed", error("gone"))
    assert told.turn.outcome().output == "partial text"
    assert cut(Told().start(), "m1", 1).end().turn.outcome().output == ""  # no answer, though the turn completed


def test_a_message_that_is_said_again_under_its_id_is_another_message() -> None:
    told = cut(Told().start(), "m", 1)
    told.delta("par", "m").say("error", error=error("Reconnecting... 2/5"), willRetry=True)
    told.message("partial text, whole", "m").end()
    texts: dict[str, str] = {}
    for event in told.of(TextEvent):
        texts[event.id] = texts.get(event.id, "") + event.text
    assert texts == {"m": "partial text", "m~2": "par", "m~3": "partial text, whole"}
    assert told.turn.outcome().output == "partial text, whole"


# -- thoughts, plans, notices ------------------------------------------------------------------------------------------


def thought(summary: list[str], content: object = ()) -> dict[str, object]:
    return {"type": "reasoning", "id": "rs_1", "summary": summary, "content": content}


def test_thoughts_come_in_pieces_and_are_no_answer() -> None:
    told = Told().start().begin(thought([]))
    for index, text in enumerate(("look", "think")):
        told.say("item/reasoning/summaryPartAdded", itemId="rs_1", summaryIndex=index)
        told.say("item/reasoning/summaryTextDelta", itemId="rs_1", delta=text, summaryIndex=index)
    told.complete(thought(["look", "think"])).end()
    assert [event.text for event in told.of(ThoughtEvent)] == ["look", "\n\n", "think"]
    assert told.turn.outcome().output == ""


@pytest.mark.parametrize(
    ("item", "text"),
    [(thought(["a", "b"]), "a\n\nb"), (thought([], ["raw", 7, "more"]), "raw\n\nmore")],
)
def test_a_thought_without_pieces_is_told_when_it_is_complete(item: dict[str, object], text: str) -> None:
    assert Told().start().begin(item).complete(item).of(ThoughtEvent) == [ThoughtEvent(text, "rs_1")]
    assert Told().start().complete(thought([])).events == []


def test_a_raw_thought_comes_in_pieces_too() -> None:
    told = Told().start().say("item/reasoning/textDelta", itemId="rs_1", delta="hm", contentIndex=0)
    assert told.of(ThoughtEvent) == [ThoughtEvent("hm", "rs_1")]


def test_a_plan_is_told_whole() -> None:
    plan = [
        {"step": "read", "status": "completed"},
        {"step": "write", "status": "inProgress"},
        {"step": "test", "status": "pending"},
        {"step": "rest", "status": "tomorrow"},
        "noise",
    ]
    told = Told().start().say("turn/plan/updated", explanation=None, plan=plan)
    entries = (PlanEntry("read", "completed"), PlanEntry("write", "in_progress"), PlanEntry("test"), PlanEntry("rest"))
    assert told.of(PlanEvent) == [PlanEvent(entries)]


def test_a_proposed_plan_is_told_by_its_lines() -> None:
    item: dict[str, object] = {"type": "plan", "id": "p", "text": "- read\n\n* write\ntest"}
    told = Told().start().begin(item).say("item/plan/delta", itemId="p", delta="- read").complete(item)
    assert told.events == [PlanEvent((PlanEntry("read"), PlanEntry("write"), PlanEntry("test")))]


def test_a_retry_is_a_notice_and_says_why() -> None:
    told = Told().start().say("error", error=error("Reconnecting... 1/5", None, "stream cut"), willRetry=True)
    assert told.of(NoticeEvent) == [NoticeEvent("Reconnecting... 1/5: stream cut", "retry", "warning")]
    assert Told().start().say("error", error=[], willRetry=True).of(NoticeEvent)[0].code == "retry"


def test_an_error_is_a_note_only_where_the_turn_does_not_end_by_itself() -> None:
    told = Told().start().say("error", error=error("waiting for network", None, "refused"), willRetry=True)
    assert told.turn.notes == ("the engine was repeating a request: waiting for network: refused",)
    told.message("it came back")
    assert told.turn.notes == ()
    told.say("error", error=error("fatal sk-abcdefghijklmnopqrstuvwxyz123456"), willRetry=False)
    assert told.turn.notes == ("the engine reported an error: fatal [redacted]",)
    assert told.end("failed").turn.outcome().evidence.notes == ()
    told = Told().start().say("error", error=error("Reconnecting"), willRetry=True).use([1, 1, 0, 0, 0])
    assert told.turn.notes == ()


@pytest.mark.parametrize(
    ("method", "params", "notice"),
    [
        ("warning", {"message": "Model metadata not found"}, ("warning", "Model metadata not found")),
        ("guardianWarning", {"message": "careful"}, ("warning", "careful")),
        ("configWarning", {"summary": "bad", "details": "line 3", "path": "/c"}, ("warning", "bad: line 3: /c")),
        ("deprecationNotice", {"summary": "old", "details": None}, ("info", "old")),
        ("thread/environment/disconnected", {"environmentId": "local"}, ("warning", "local")),
        ("hook/completed", {"run": {"eventName": "stop", "status": "failed"}}, ("warning", "hook stop failed")),
        ("hook/completed", {"run": {"eventName": "stop", "status": "completed"}}, None),
        ("mcpServer/startupStatus/updated", {"name": "e", "error": "no"}, ("warning", "MCP server e: no")),
        ("mcpServer/startupStatus/updated", {"name": "e", "status": "ready", "error": None}, None),
        ("configWarning", {"summary": "Codex could not find bubblewrap on PATH. Install it"}, None),
        ("warning", {"message": ""}, None),
        ("model/rerouted", {"fromModel": "a", "toModel": "b", "reason": "r"},
         ("warning", "the model b answers in the place of a: r")),
    ],
)  # fmt: skip
def test_what_the_engine_warns_of_is_a_notice(
    method: str, params: dict[str, object], notice: tuple[str, str] | None
) -> None:
    told = Told().say(method, **params)
    assert [(event.level, event.text) for event in told.of(NoticeEvent)] == ([] if notice is None else [notice])
    assert not notice or told.of(NoticeEvent)[0].code == method


def test_the_model_that_answers_in_the_place_of_another_is_in_the_result() -> None:
    told = Told().start().say("model/rerouted", fromModel="a", toModel="b", reason="highRiskCyberActivity")
    assert told.message("x").end().turn.outcome().model == "b"


def test_a_compacted_conversation_is_a_notice() -> None:
    item: dict[str, object] = {"type": "contextCompaction", "id": "c"}
    told = Told().start().begin(item).complete(item).say("thread/compacted")
    assert [event.code for event in told.of(NoticeEvent)] == ["compacted"]


def limits(**more: object) -> dict[str, object]:
    return {"limitId": "codex", "primary": None, "secondary": None, "rateLimitReachedType": None, **more}


def test_rate_limits_are_told_when_they_say_something_new() -> None:
    window = {"usedPercent": 43, "windowDurationMins": 300, "resetsAt": 1796080000}
    told = Told().start()
    for said in (
        limits(),
        limits(primary=window),
        limits(primary=window),
        limits(primary={**window, "usedPercent": 100}),
    ):
        told.say("account/rateLimits/updated", rateLimits=said)
    first, second = told.of(NoticeEvent)
    assert first.data == {"primary": {"used_percent": 43, "resets_at": 1796080000, "minutes": 300}}
    assert (first.level, second.level) == ("info", "warning")
    told.end("failed", error("You've hit your usage limit.", "usageLimitExceeded"))
    failure = told.turn.outcome().failure
    assert failure is not None
    assert (failure.kind, failure.retry_at) == ("limit", 1796080000.0)


def test_a_reached_limit_says_which() -> None:
    told = Told().say("account/rateLimits/updated", rateLimits=limits(rateLimitReachedType="rate_limit_reached"))
    assert told.of(NoticeEvent)[0].text == "used: reached: rate_limit_reached"
    told.say("account/rateLimits/updated", rateLimits=limits(individualLimit={"remainingPercent": 10, "resetsAt": 5}))
    assert told.of(NoticeEvent)[1].text == "used: 90 % of the individualLimit limit"


def test_a_second_message_of_the_same_id_is_a_message_of_its_own() -> None:
    told = Told().start()
    told.say("item/completed", item=message("m0", "I will look"))
    told.say("item/completed", item=message("m0", "The answer"))
    told.say("item/completed", item=message("m0", "The answer"))  # said again
    told.end()
    assert told.turn.outcome().output == "The answer"
    assert [(e.id, e.text) for e in told.of(TextEvent)] == [("m0", "I will look"), ("m0~2", "The answer")]


def test_a_message_of_a_sub_agent_hides_none_of_the_same_id() -> None:
    told = Told().start()
    told.say("item/completed", threadId="another", item=message("m0", "said below"))
    told.say("item/completed", item=message("m0", "The answer"))
    told.end()
    assert told.turn.outcome().output == "The answer"


def test_what_is_said_again_word_for_word_after_a_retry_is_the_answer() -> None:
    told = Told().start()
    told.say("item/completed", item=message("m0", "The answer"))
    told.say("error", error=error("cut"), willRetry=True)
    told.say("item/completed", item=message("m0", "The answer"))
    told.end()
    assert told.turn.outcome().output == "The answer"
