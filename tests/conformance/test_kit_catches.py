"""A kit that cannot fail is worth nothing: for every promise there is a mutant that breaks it, and the kit says so.

Where a provider keeps the promise the mutant is a provider; where the seam does, the seam is patched.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pkgutil import resolve_name

import anyio
import pytest
from provider_mutants import HELD, MORE_PROVIDER_MUTANTS, PROVIDER_MUTANTS, Mutant, a_thread, leaking
from seam_mutants import MORE_SEAM_MUTANTS, SEAM_MUTANTS

from subagent_testing import BrokenPromise, provider_checks, seam_checks

pytestmark = pytest.mark.usefixtures("held")

CHECKS = {c.promise.name: c for c in (*provider_checks(["asyncio"]), *seam_checks(["asyncio"]))}
MUTANTS = PROVIDER_MUTANTS | SEAM_MUTANTS
MORE = [*MORE_PROVIDER_MUTANTS, *MORE_SEAM_MUTANTS]


def test_every_promise_has_a_mutant() -> None:
    assert set(MUTANTS) == set(CHECKS)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "mutant", "says"),
    [*((name, *mutant) for name, mutant in MUTANTS.items()), *MORE],
    ids=[*MUTANTS, *(f"{name}-too" for name, *_ in MORE)],
)
def test_the_kit_catches(name: str, mutant: Mutant, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = mutant(monkeypatch)
    if says == "too long":
        subject = replace(subject, patience=0.6)
    with pytest.raises(BrokenPromise) as caught:
        CHECKS[name](subject)
    assert says in str(caught.value)
    assert caught.value.promise in (name, "nothing-is-left")


@pytest.mark.parametrize(
    ("leak", "says"),
    [
        (lambda: resolve_name("subagents._host.spawn")(anyio.sleep_forever, "forgotten"), "task forgotten"),
        (a_thread, "thread forgotten"),
        (lambda: HELD.append(os.open(os.devnull, os.O_RDONLY)), "descriptor /dev/null"),
        (lambda: HELD.append(subprocess.Popen(["sleep", "60"])), "child "),
        (lambda: tempfile.mkdtemp(prefix="forgotten-"), "forgotten-"),
    ],
    ids=["task", "thread", "descriptor", "child", "folder"],
)
def test_the_kit_catches_every_leak(leak: Callable[[], object], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokenPromise) as caught:
        CHECKS["a-task-completes"](leaking(leak)(monkeypatch))
    assert caught.value.promise == "nothing-is-left"
    assert says in str(caught.value)
