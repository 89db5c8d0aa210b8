"""Sub-agents beside a turn, and what all of them used."""

from __future__ import annotations

from turn_kit import COMMAND, THREAD, Told, error

from subagents import NoticeEvent, PlanEvent, TextEvent, ToolEvent, Usage, UsageEvent

# -- sub-agents --------------------------------------------------------------------------------------------------------

AGENT = "01a22fd7-618e"
SPAWN: dict[str, object] = {
    "type": "collabAgentToolCall", "id": "call_9", "tool": "spawnAgent", "status": "completed",
    "senderThreadId": THREAD, "receiverThreadIds": [AGENT], "prompt": "look at it",
    "agentsStates": {AGENT: {"status": "running", "message": "on it"}},
}  # fmt: skip


def test_a_sub_agent_speaks_with_its_parent_and_never_is_the_answer() -> None:
    told = Told().start().begin({**SPAWN, "status": "inProgress", "receiverThreadIds": []}).complete(SPAWN)
    told.message("sub says hi", "m1", "final_answer", threadId=AGENT)
    told.begin({**COMMAND, "id": "call_sub"}, threadId=AGENT)
    told.say("turn/plan/updated", plan=[{"step": "sub", "status": "pending"}], threadId=AGENT)
    told.say("turn/completed", threadId=AGENT, turn={"id": "sub", "status": "completed"})
    assert not told.turn.ended
    told.message("done", "m2").end()
    assert {event.parent for event in told.of(TextEvent) if event.id == "m1"} == {"call_9"}
    assert told.of(ToolEvent)[-1].parent == "call_9"
    assert told.of(ToolEvent)[1].output == "on it"
    assert told.of(PlanEvent) == []
    assert told.turn.outcome().output == "done"


def test_a_sub_agent_of_which_nothing_is_known_is_its_own_parent() -> None:
    told = Told().start().delta("x", threadId="stranger").delta("y", "m2", threadId=7)
    assert [event.parent for event in told.of(TextEvent)] == ["stranger", "?"]


def test_the_errors_of_a_sub_agent_are_notices_and_change_nothing() -> None:
    told = Told().start().message("mine", "m1").say("error", error=error("sub gone"), willRetry=False, threadId=AGENT)
    told.say("error", error=error("sub again"), willRetry=True, threadId=AGENT)
    assert [(event.code, event.text) for event in told.of(NoticeEvent)] == [
        ("error", "sub gone"),
        ("retry", "sub again"),
    ]
    assert told.turn.notes == ()
    assert told.end().turn.outcome().output == "mine"


def test_a_sub_agent_that_starts_accepts_nothing() -> None:
    told = Told().say("turn/started", threadId=AGENT, turn={"id": "sub"})
    assert not told.turn.accepted


# -- usage -------------------------------------------------------------------------------------------------------------


def test_usage_is_that_of_the_turn() -> None:
    told = Told().start().use([100, 20, 40, 3, 5]).use([200, 40, 80, 3, 10], [100, 20, 40, 0, 5]).end()
    assert told.of(UsageEvent)[0].usage == Usage(100, 20, 40, 3, 5)
    assert told.turn.outcome().usage == told.of(UsageEvent)[1].usage == Usage(200, 40, 80, 3, 10)


def test_what_a_resumed_thread_used_before_does_not_count() -> None:
    told = Told().use([1000, 200, 400, 0, 50], turnId="of then").start()
    told.use([1100, 220, 440, 0, 55], [100, 20, 40, 0, 5]).end()
    assert told.turn.outcome().usage == Usage(100, 20, 40, 0, 5)
    assert len(told.of(UsageEvent)) == 1


def test_a_total_of_another_turn_is_from_before_also_when_it_comes_late() -> None:
    told = Told().start().use([1000, 200, 400, 0, 50], turnId="of then").use([1100, 220, 440, 0, 55], [1, 1, 1, 0, 1])
    assert told.turn.usage == Usage(100, 20, 40, 0, 5)


def test_a_resumed_thread_that_does_not_say_what_it_used_is_counted_from_its_first_response() -> None:
    told = (
        Told().start().use([1100, 220, 440, 0, 55], [100, 20, 40, 0, 5]).use([1200, 240, 480, 0, 60], [1, 1, 1, 0, 1])
    )
    assert told.turn.usage == Usage(200, 40, 80, 0, 10)


def test_the_made_up_usage_of_a_full_window_is_no_usage() -> None:
    bogus = {"totalTokens": 258400, **dict.fromkeys(("inputTokens", "outputTokens", "cachedInputTokens"), 0)}
    told = Told().start().say("thread/tokenUsage/updated", tokenUsage={"total": bogus, "last": bogus})
    told.end("failed", error("ran out of room", "contextWindowExceeded"))
    assert told.turn.outcome().usage == Usage()
    assert told.turn.outcome().stop_reason == "max-tokens"


def test_the_usage_of_sub_agents_is_the_runs_too() -> None:
    told = Told().start().use([100, 20, 40, 0, 5]).use([50, 10, 0, 0, 0], threadId=AGENT)
    assert told.turn.usage == Usage(150, 30, 40, 0, 5)


def test_a_total_that_is_said_again_is_no_event() -> None:
    assert len(Told().start().use([1, 1, 1, 1, 1]).use([1, 1, 1, 1, 1]).of(UsageEvent)) == 1


def test_parts_that_are_not_said_are_not_known() -> None:
    told = Told().start().say("thread/tokenUsage/updated", tokenUsage={"total": {"inputTokens": 7, "outputTokens": -1}})
    assert told.turn.usage == Usage(7, 0)
    assert not Told().start().say("thread/tokenUsage/updated", tokenUsage=7).of(UsageEvent)
