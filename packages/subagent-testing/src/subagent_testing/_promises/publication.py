"""What a provider says about itself, before it does any work."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, Final

import anyio.lowlevel

from subagent_testing._promise import Subject, expect, expect_a, expect_equal, names
from subagent_testing.leaks import children
from subagents import Model, Probe, Task, TaskError, Unsupported

SEAM_FIELDS: Final = frozenset({"prompt", "cwd", "deadline", "idle_limit", "label", "changes", "isolation"})
"""What every provider takes, because the seam does it."""

VALUES: Final[dict[str, Any]] = {
    "model": "some-model",
    "effort": "high",
    "output_schema": {"type": "object"},
    "read": ("README.md",),
    "write": ("out.txt",),
    "tools": ("shell",),
    "max_turns": 3,
    "budget": 1.5,
    "resume": "session-1",
    "instructions": "Be brief.",
}
"""A value other than the default for each field that a provider may or may not do."""


async def name_is_kebab_case(subject: Subject) -> None:
    """The name of an instance is kebab-case, so that it can stand in configuration and on a command line."""
    name = expect_a(subject.make().name, str, "name")
    expect(re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) is not None, f"the name is {name!r}")


async def name_is_the_same_for_the_same_configuration(subject: Subject) -> None:
    """Two instances of one configuration have one name: people write it down."""
    expect_equal(subject.make().name, subject.make().name, "the name of a second instance")


async def capabilities_are_known_words(subject: Subject) -> None:
    """Capabilities are names of Task fields, and `send`."""
    capabilities = subject.make().capabilities
    expect_a(capabilities, frozenset, "capabilities")
    unknown = capabilities - {f.name for f in fields(Task)} - {"send"}
    expect(not unknown, f"no Task has a field {names(unknown)}")


async def options_are_frozen_and_closed(subject: Subject) -> None:
    """The options model, where there is one, is frozen and refuses what it does not know."""
    model = subject.make().options_type
    if model is not None:
        expect(model.model_config.get("frozen") is True, f"{model.__name__} is not frozen")
        expect_equal(model.model_config.get("extra"), "forbid", f"extra of {model.__name__}")


async def making_and_starting_do_nothing_yet(subject: Subject) -> None:
    """Making a provider, and `start` without entering, start nothing."""
    before = children()
    run = subject.start()
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    expect_equal(children(), before, "child processes after start()")
    run.cancel()
    expect_equal([e.type async for e in run.events()], [], "events of a run that was never entered")


async def probing_always_answers(subject: Subject) -> None:
    """`probe` answers, and what is available needs no fix."""
    found = expect_a(await subject.make().probe(), Probe, "what probe returned")
    expect(found.available or bool(found.detail or found.fix), "it is not available, and nothing says why")


async def models_have_names_of_their_own(subject: Subject) -> None:
    """`models` lists models with different names, at most one of them the default."""
    found = [expect_a(m, Model, "an entry of models") for m in await subject.make().models()]
    known = [m.name for m in found]
    expect(len(set(known)) == len(known), f"a name comes twice: {names(known)}")
    expect(sum(m.default for m in found) <= 1, "more than one is the default")


async def what_it_cannot_do_is_refused_by_name(subject: Subject) -> None:
    """A Task field outside `capabilities` is refused by name before anything starts, and one inside is taken."""
    provider = subject.make()
    for field, value in VALUES.items():
        try:
            provider.start("anything", **{field: value})
        except Unsupported as exc:
            refused = str(exc)
            expect(field not in provider.capabilities, f"{field} is a capability and was refused: {refused}")
            expect(field in refused, f"the refusal does not name {field}: {refused}")
        except TaskError as exc:  # the field is known, and this value is none of its own words
            expect(field in provider.capabilities, f"{field} is no capability, and its value was refused: {exc}")
        else:
            expect(field in provider.capabilities, f"{field} is no capability and was accepted")


async def messages_are_refused_unless_it_can_send(subject: Subject) -> None:
    """`send` raises `Unsupported` unless `send` is a capability."""
    run = subject.start()
    try:
        await run.send("hello")
    except Unsupported:
        expect("send" not in subject.make().capabilities, "send is a capability and was refused")
    else:
        expect("send" in subject.make().capabilities, "a message was accepted, and send is no capability")
