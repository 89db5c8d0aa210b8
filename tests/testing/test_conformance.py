"""The kit itself: what it reports, what it skips, and that nothing a broken provider does keeps it from ending."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import fields

import anyio
import pytest

import subagent_testing
from subagent_testing import (
    BrokenPromise,
    BrokenPromises,
    Check,
    NotApplicable,
    Promise,
    Scripted,
    Subject,
    check_provider,
    check_seam,
    provider_checks,
    scripted,
    seam_checks,
    seam_subject,
)
from subagent_testing._promises import publication
from subagents import Link, StartError, Task


def test_a_good_provider_gets_a_report_of_what_was_shown_and_what_was_not() -> None:
    report = check_provider(lambda: Scripted(scripted.completes()), "say hi", backends=["asyncio"])
    assert "a-task-completes-asyncio" in report.kept
    assert report.skipped["leaving-stops-it-asyncio"] == "no slow_task was given"
    assert report.skipped["a-failed-start-is-one-start-error-asyncio"] == "no failing provider was given"
    assert {*report.kept, *report.skipped} == {check.id for check in provider_checks(["asyncio"])}
    with pytest.raises(TypeError):
        report.skipped["x"] = "y"  # pyright: ignore[reportIndexIssue]


def test_every_broken_promise_is_listed_with_what_happened() -> None:
    def make() -> Scripted:
        return Scripted(scripted.ends_silently(), name="My Engine")

    with pytest.raises(BrokenPromises) as caught:
        check_provider(make, "say hi", backends=["trio"])
    broken = {exc.promise: exc for exc in caught.value.exceptions if isinstance(exc, BrokenPromise)}
    assert {"name-is-kebab-case", "a-task-completes"} <= set(broken)
    assert len(broken) == len(caught.value.exceptions)
    assert str(caught.value).startswith(f"provider My Engine breaks {len(broken)} of ")
    assert "\n  name-is-kebab-case [trio]: the name is 'My Engine'" in str(caught.value)
    first, rest = caught.value.split(lambda exc: exc is broken["name-is-kebab-case"])
    assert first is not None
    assert rest is not None
    assert len(first.exceptions) + len(rest.exceptions) == len(broken)


@pytest.mark.long
def test_the_seam_keeps_all_in_one_call() -> None:
    report = check_seam(backends=["trio"])
    every = {check.id for check in (*provider_checks(["trio"]), *seam_checks(["trio"]))}
    assert {*report.kept, *report.skipped} == every
    assert set(report.skipped.values()) == {
        "only asyncio has raw cancellation",
        "trio has no cancellation that anybody can raise",
    }


def test_every_promise_says_in_one_sentence_what_is_promised() -> None:
    checks = (*provider_checks(), *seam_checks())
    assert len({check.id for check in checks}) == len(checks)
    for check in checks:
        assert check.promise.says.rstrip(".:") != check.promise.says, check.id


def test_the_table_of_fields_knows_every_field_of_a_task() -> None:
    assert {f.name for f in fields(Task)} == {*publication.VALUES, *publication.SEAM_FIELDS}


def test_the_kit_works_inside_a_running_loop() -> None:
    async def main() -> None:
        provider_checks(["trio"])[0](seam_subject())

    asyncio.run(main())


def _check(keep: object, **more: object) -> Check:
    return Check(Promise(keep, **more), "asyncio")  # pyright: ignore[reportArgumentType]


def test_an_error_that_only_the_event_loop_heard_of_breaks_a_promise() -> None:
    async def something(_: Subject) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: 1 / 0)
        loop.call_soon(loop.call_exception_handler, {"message": "a transport was lost"})
        await asyncio.sleep(0)

    with pytest.raises(BrokenPromise, match=r"ZeroDivisionError.*a transport was lost"):
        _check(something)(seam_subject())


def test_a_loop_that_does_not_end_is_reported_with_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subagent_testing._bench._END", 0.2)
    release = threading.Event()

    async def blocks(_: Subject) -> None:
        release.wait()

    try:
        with pytest.raises(BrokenPromise, match=r"(?s)blocks \[asyncio\]: the event loop did not end.*release\.wait"):
            _check(blocks)(seam_subject(patience=0.2))
    finally:
        release.set()
        for thread in threading.enumerate():
            if thread.name == "subagent-testing blocks":
                thread.join()


def test_what_a_promise_needs_and_has_not_got_is_no_failure() -> None:
    async def wants(subject: Subject) -> None:
        subject.given("ask_task")

    with pytest.raises(NotApplicable, match="no ask_task was given"):
        _check(wants)(Subject(make=lambda: Scripted(scripted.completes()), task="x"))


def test_importing_the_package_gives_every_public_name_and_no_other() -> None:
    assert sorted(subagent_testing.__all__) == subagent_testing.__all__ == dir(subagent_testing)
    for name in subagent_testing.__all__:
        assert getattr(subagent_testing, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        subagent_testing.missing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.anyio
async def test_a_script_is_chosen_by_the_first_word_of_the_prompt(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "subagents")
    ends = {
        "completes": "completed",
        "lingers": "completed",
        "bursts": "completed",
        "refuses": "start",
        "raises": "error",
        "raises-late": "completed",
        "strays": "error",
        "silent": "error",
        "asks": "completed",
        "lasts": "aborted",
        "swallows": "aborted",
        "never-ready": "aborted",
        "echoes": "aborted",
    }
    assert set(ends) == set(scripted.SCRIPTS)
    for word, end in ends.items():
        provider = Scripted(scripted.by_prompt(scripted.SCRIPTS), leave_timeout=5)
        run = provider.start(f"{word} and more", changes=False)
        try:
            with anyio.fail_after(10):
                async with anyio.create_task_group() as tasks:
                    if word == "never-ready":
                        tasks.start_soon(_soon, run.cancel)
                    async with run:
                        if end == "aborted":
                            run.cancel()
                        assert (await run.result()).stop_reason == end
        except* StartError:
            assert end == "start"
        assert provider.started == provider.ended == 1, word


async def _soon(call: object) -> None:
    await anyio.lowlevel.checkpoint()
    call()  # pyright: ignore[reportCallIssue]


@pytest.mark.anyio
async def test_an_unknown_script_is_a_start_error_that_lists_the_known_ones() -> None:
    with pytest.raises(StartError, match=r"no script 'dances'.*completes, lasts"):
        async with Scripted(scripted.by_prompt(scripted.SCRIPTS)).start("dances"):
            pass


@pytest.mark.anyio
async def test_a_script_may_go_on_after_the_cancellation_that_it_swallowed() -> None:
    after: list[str] = []

    async def then(task: Task, link: Link) -> None:
        after.append(task.prompt)

    async with Scripted(scripted.swallows_once(then)).start("x"):
        pass
    assert after == ["x"]
