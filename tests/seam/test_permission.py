"""An answer never grants more than was offered, and whatever goes wrong is a rejection."""

from __future__ import annotations

import pytest

from subagents import Choice, PermissionOption, PermissionRequest
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
