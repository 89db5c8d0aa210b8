"""An answer never grants more than was offered, and whatever goes wrong is a rejection."""

from __future__ import annotations

from typing import Literal

import pytest

from subagents import (
    Choice,
    Link,
    Permission,
    PermissionOption,
    PermissionRequest,
    Provider,
    Result,
    Task,
    TaskError,
)
from subagents._permission import choose

ALL = tuple(
    PermissionOption(kind, f"id-{kind}") for kind in ("allow_always", "allow_once", "reject_always", "reject_once")
)


def ask(*options: PermissionOption) -> PermissionRequest:
    return PermissionRequest("run it", options=options)


@pytest.mark.parametrize(
    ("answer", "kind", "option"),
    [
        ("allow", "allow_once", "id-allow_once"),
        ("allow_once", "allow_once", "id-allow_once"),
        ("allow_always", "allow_always", "id-allow_always"),
        ("reject", "reject_once", "id-reject_once"),
        ("reject_once", "reject_once", "id-reject_once"),
        ("reject_always", "reject_always", "id-reject_always"),
        (Choice("allow_always"), "allow_always", "id-allow_always"),
        (Choice("allow_once", "id-allow_once"), "allow_once", "id-allow_once"),
        (Choice("allow_once", "something else"), "reject_once", "id-reject_once"),
        ("yes", "reject_once", "id-reject_once"),
        (True, "reject_once", "id-reject_once"),
        (None, "reject_once", "id-reject_once"),
        ([], "reject_once", "id-reject_once"),
    ],
)
def test_the_choice_for_an_answer(answer: object, kind: str, option: str) -> None:
    choice = choose(ask(*ALL), answer)
    assert (choice.kind, choice.option) == (kind, option)
    assert choice.allowed == kind.startswith("allow")


def test_allow_does_not_take_a_standing_permission() -> None:
    choice = choose(ask(PermissionOption("allow_always", "a"), PermissionOption("reject_always", "r")), "allow")
    assert (choice.kind, choice.option) == ("reject_always", "r")
    assert "allow_once was not offered" in choice.reason


def test_a_rejection_exists_although_none_was_offered() -> None:
    assert choose(ask(PermissionOption("allow_once", "a")), "reject") == Choice("reject_once")


def test_without_options_it_is_once_or_not() -> None:
    assert choose(PermissionRequest("x"), "allow") == Choice("allow_once")
    assert choose(PermissionRequest("x"), "allow_always").kind == "reject_once"


def test_the_first_of_two_options_of_one_kind_is_taken_unless_one_is_named() -> None:
    two = ask(
        PermissionOption("allow_once", "a"),
        PermissionOption("allow_once", "b"),
        PermissionOption("reject_once", "c"),
        PermissionOption("reject_once", "d"),
    )
    assert choose(two, "allow").option == "a"
    assert choose(two, Choice("allow_once", "b", "why")) == Choice("allow_once", "b", "why")
    assert choose(two, "reject").option == "c"


def generous(request: PermissionRequest) -> Literal["allow"]:
    return "allow"


def careful(request: PermissionRequest) -> Literal["allow", "reject"]:
    return "reject" if request.beyond else "allow"


class Asking(Provider):
    """Asks once, and answers with what it was told."""

    name = "asking"

    def __init__(self, request: PermissionRequest) -> None:
        self.request = request

    def check(self, task: Task) -> None:
        if task.prompt == "not this":
            raise TaskError("this engine does not take 'not this'")

    async def drive(self, task: Task, link: Link) -> None:
        link.ready()
        choice = await link.ask(self.request)
        link.note("said before it")
        link.finish(Result.completed(choice.kind))
        link.note("said after the verdict, with sk-proj-abcdefghijklmnopqrstuvwxyz012345")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("permission", "beyond", "told"),
    [
        ("allow", False, "allow_once"),
        ("allow", True, "reject_once"),
        ("reject", True, "reject_once"),
        (generous, True, "allow_once"),
        (careful, True, "reject_once"),
    ],
)
async def test_what_is_beyond_the_configuration_only_a_callback_grants(
    permission: Permission, beyond: bool, told: str
) -> None:
    provider = Asking(PermissionRequest("leave the sandbox", beyond=beyond))
    async with provider.start("x", permission=permission) as run:
        assert (await run.result()).output == told


@pytest.mark.anyio
async def test_a_note_of_the_backend_is_in_the_evidence_without_its_secret() -> None:
    async with Asking(PermissionRequest("x")).start("x") as run:
        pass
    before, note = (await run.closed()).evidence.notes
    assert before == "said before it"
    assert note.startswith("said after the verdict, with [redacted]")


def test_what_an_engine_cannot_take_is_refused_by_start() -> None:
    with pytest.raises(TaskError, match="does not take 'not this'"):
        Asking(PermissionRequest("x")).start("not this")


@pytest.mark.anyio
async def test_a_yes_of_whoever_has_just_cancelled_the_run_is_a_no() -> None:
    told: list[str] = []

    class Listening(Asking):
        async def drive(self, task: Task, link: Link) -> None:
            link.ready()
            told.append((await link.ask(self.request)).kind)

    def yes_and_stop(request: PermissionRequest) -> Literal["allow"]:
        run.cancel()
        return "allow"

    run = Listening(PermissionRequest("x")).start("x", permission=yes_and_stop)
    async with run:
        assert (await run.closed()).stop_reason == "aborted"
    assert told in ([], ["reject_once"])
