"""What the real Codex asks before it acts, who answers, and what a yes grants.

`permission="allow"` grants what the configuration allows by itself, and nothing beyond: not to leave the sandbox, and
no file change where the sandbox may not write. A callback may grant that too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import anyio
import pytest
from codex_kit import Told, against, patch, shell, shell_outputs, told

from subagent_codex import _answers
from subagent_testing import ScriptedResponses, responses
from subagents import Choice, Permission, PermissionEvent, PermissionRequest, Run

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("codex_binary")]
both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])

REMOVE: Final = shell("rm -rf kept")  # what on-request asks about; a plain command
ESCALATED: Final = {"sandbox_permissions": "require_escalated"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Case:
    """One thing that Codex asks about.

    Attributes:
        step: what the model does; it leaves `made` in the working folder or `outside` beside it, or takes `kept` away.
        beyond: it goes beyond what the configuration allows by itself.
    """

    sandbox: str
    policy: str
    step: responses.Item
    beyond: bool


CASES: Final = {
    "plain": Case("workspace-write", "on-request", REMOVE, beyond=False),
    "leaving the sandbox": Case("workspace-write", "on-request", shell("touch ../outside", **ESCALATED), beyond=True),
    "leaving it with a reason": Case(
        "read-only", "on-request", shell("touch ../outside", **ESCALATED, justification="I must"), beyond=True
    ),
    # The engine runs an approved command again without its sandbox when that stopped it, and asks nobody.
    "untrusted": Case("workspace-write", "untrusted", shell("touch made"), beyond=True),
    "untrusted, to outside": Case("read-only", "untrusted", shell("touch ../outside"), beyond=True),
    "patch": Case("workspace-write", "untrusted", patch("made", "x"), beyond=False),
    "patch in read-only": Case("read-only", "on-request", patch("made", "x"), beyond=True),
    "patch to outside": Case("workspace-write", "on-request", patch("../outside", "x"), beyond=True),
    "plain without a sandbox": Case("danger-full-access", "on-request", REMOVE, beyond=False),
    "untrusted without a sandbox": Case("danger-full-access", "untrusted", shell("touch ../outside"), beyond=False),
    "patch without a sandbox": Case("danger-full-access", "untrusted", patch("../outside", "x"), beyond=False),
}
SOON: Final = ("plain", "leaving the sandbox", "patch", "patch to outside")
SELECTED: Final = [name if name in SOON else pytest.param(name, marks=pytest.mark.long) for name in CASES]


def changed(work: Path) -> bool:
    return (work / "made").exists() or (work.parent / "outside").exists() or not (work / "kept").exists()


async def asked(work: Path, case: Case, permission: Permission) -> tuple[Told, PermissionRequest, Choice]:
    """A run in which the model takes that step; the one question that came of it, and the answer."""
    (work / "kept").mkdir()
    with ScriptedResponses([[case.step], "done"]) as api:
        provider = against(api, sandbox=case.sandbox, approval_policy=case.policy)
        found = await told(provider, "work", work, permission=permission)
    questions = [e for e in found.events if isinstance(e, PermissionEvent)]
    assert [e.choice is None for e in questions] == [True, False]
    choice = questions[1].choice
    assert choice is not None
    assert found.result.ok
    return found, questions[0].request, choice


@pytest.mark.parametrize("name", SELECTED)
async def test_allow_grants_what_the_configuration_allows_and_nothing_beyond(work: Path, name: str) -> None:
    case = CASES[name]
    found, request, choice = await asked(work, case, "allow")
    assert request.beyond == case.beyond
    assert choice.allowed != case.beyond
    assert changed(work) != case.beyond
    assert found.tools[-1].status == ("failed" if case.beyond else "completed")
    if case.beyond:
        assert "a callback may grant it" in choice.reason


# Whether the engine repeats a command without its sandbox depends on how soon it sees its end.
CERTAIN: Final = [pytest.param(name, marks=pytest.mark.long) for name in CASES if name != "untrusted, to outside"]


@pytest.mark.parametrize("name", CERTAIN)
async def test_a_callback_may_grant_everything(work: Path, name: str) -> None:
    found, request, choice = await asked(work, CASES[name], lambda request: "allow")
    assert choice == Choice("allow_once", "accept", "")
    assert request.id == found.tools[-1].id
    assert changed(work)
    assert found.result.evidence.notes == ()


@pytest.mark.parametrize(
    "name", ["plain", *(pytest.param(name, marks=pytest.mark.long) for name in CASES if name != "plain")]
)
async def test_nobody_to_ask_is_a_rejection_that_is_visible_in_the_result(work: Path, name: str) -> None:
    found, _, choice = await asked(work, CASES[name], "reject")
    assert choice.kind == "reject_once"
    assert not changed(work)
    assert found.tools[-1].status == "failed"
    assert found.result.evidence.notes == ("1 step was declined when the engine asked for permission",)


async def test_what_is_asked_says_what_would_be_done(work: Path) -> None:
    _, command, _ = await asked(work, CASES["plain"], "reject")
    assert (command.kind, command.command) == ("execute", "/bin/bash -c 'rm -rf kept'")
    assert [option.kind for option in command.options] == ["allow_once", "reject_once"]
    (work / "kept").rmdir()
    _, change, _ = await asked(work, CASES["patch to outside"], "reject")
    assert (change.kind, change.paths) == ("edit", (str(work.parent / "outside"),))
    assert [option.kind for option in change.options] == ["allow_once", "allow_always", "reject_once"]


@pytest.mark.long
async def test_a_granted_plain_command_still_runs_in_the_sandbox(work: Path) -> None:
    found, _, choice = await asked(work, Case("read-only", "on-request", REMOVE, beyond=False), "allow")
    assert choice.allowed
    assert (work / "kept").exists()
    assert (found.tools[-1].status, found.tools[-1].exit_code) == ("failed", 1)
    assert "Read-only file system" in found.tools[-1].output
    # Whether the engine ends it as an item, or only answers the call, depends on how soon it sees its end.
    assert not [note for note in found.result.evidence.notes if "still running" in note]


@pytest.mark.long
@pytest.mark.parametrize("policy", ["never", "on-request"])
async def test_without_a_sandbox_leaving_it_is_no_question(work: Path, policy: str) -> None:
    """`never` refuses to ask, `on-request` has nothing to ask."""
    with ScriptedResponses([[shell("touch made", **ESCALATED)], "done"]) as api:
        provider = against(api, sandbox="danger-full-access", approval_policy=policy)
        found = await told(provider, "work", work)
        (output,) = shell_outputs(api)
    assert not [e for e in found.events if isinstance(e, PermissionEvent)]
    assert (work / "made").exists() == (policy == "on-request")
    assert ("approval policy is Never" in output) == (policy == "never")


@pytest.mark.long
async def test_what_never_forbids_is_refused_by_the_engine_in_every_sandbox(work: Path) -> None:
    (work / "kept").mkdir()
    for sandbox in ("read-only", "workspace-write", "danger-full-access"):
        with ScriptedResponses([[REMOVE], "done"]) as api:
            found = await told(against(api, sandbox=sandbox), "work", work, permission="allow")
        assert (work / "kept").exists()
        assert not [e for e in found.events if isinstance(e, PermissionEvent)]
        (note,) = found.result.evidence.notes
        assert "rm -f style commands are not permitted" in note


async def test_a_file_change_may_be_granted_for_the_whole_run(work: Path) -> None:
    with ScriptedResponses([[patch("one", "x")], [patch("one.more", "x")], [patch("one", "y")], "done"]) as api:
        provider = against(api, sandbox="workspace-write", approval_policy="untrusted")
        found = await told(provider, "work", work, permission=lambda request: "allow_always")
    choices = [e.choice.kind for e in found.events if isinstance(e, PermissionEvent) and e.choice]
    assert choices == ["allow_always", "allow_always"]  # for each file once
    assert (work / "one.more").exists()


# -- a callback that fails ---------------------------------------------------------------------------------------------


async def raises(request: PermissionRequest) -> Choice:
    raise RuntimeError("the window was closed")


async def never_answers(request: PermissionRequest) -> Choice:
    await anyio.sleep_forever()
    raise AssertionError


def nonsense(request: PermissionRequest) -> Choice:
    return "yes, of course"  # pyright: ignore[reportReturnType]  # what a caller may do


def unoffered(request: PermissionRequest) -> Choice:
    return Choice("allow_always")


@pytest.mark.parametrize(
    ("callback", "reason"),
    [
        (raises, "the permission callback failed"),
        (never_answers, "no answer within 0.2 s"),
        (nonsense, "the answer was none of the words"),
        (unoffered, "allow_always was not offered"),
    ],
)
async def test_a_callback_that_fails_is_a_rejection_and_the_run_goes_on(
    work: Path, callback: Permission, reason: str
) -> None:
    (work / "kept").mkdir()
    with ScriptedResponses([[REMOVE], "done"]) as api:
        provider = against(api, sandbox="workspace-write", approval_policy="on-request")
        provider.ask_timeout = 0.2
        found = await told(provider, "work", work, permission=callback)
        assert "rejected by user" in shell_outputs(api)[0]
    (choice,) = [e.choice for e in found.events if isinstance(e, PermissionEvent) and e.choice]
    assert choice.kind == "reject_once"
    assert choice.reason.startswith(reason)
    assert (found.result.output, changed(work)) == ("done", False)


# -- what waits for a person -------------------------------------------------------------------------------------------


@both_loops
@pytest.mark.parametrize("step", [REMOVE, patch("made", "x")], ids=["command", "patch"])
async def test_a_run_that_is_cancelled_while_a_person_is_asked_is_over_at_once(
    work: Path, step: responses.Item
) -> None:
    (work / "kept").mkdir()
    waiting, ended = anyio.Event(), anyio.Event()

    async def person(request: PermissionRequest) -> str:
        waiting.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    with ScriptedResponses([[step], "done"]) as api, anyio.fail_after(30):
        provider = against(api, sandbox="workspace-write", approval_policy="untrusted")
        async with provider.start("work", cwd=work, permission=person) as run:  # pyright: ignore[reportArgumentType]
            await waiting.wait()
            run.cancel("enough")
            assert (await run.result()).stop_reason == "aborted"
            result = await run.closed()
        await ended.wait()
        assert len(api.requests) == 1
    assert not changed(work)
    process = result.evidence.process
    assert process is not None
    assert (process.clean, process.home_removed, process.steps) == (True, True, ("eof",))
    assert result.evidence.notes == ("enough",)


@both_loops
async def test_a_yes_of_who_has_cancelled_the_run_grants_nothing(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "kept").mkdir()
    runs: list[Run] = []
    answers: list[object] = []
    real = _answers.Answers.answer

    async def answer(self: _answers.Answers, method: str, params: dict[str, object]) -> dict[str, object]:
        answers.append(await real(self, method, params))
        return cast("dict[str, object]", answers[-1])

    def person(request: PermissionRequest) -> str:
        runs[0].cancel()
        return "allow"

    monkeypatch.setattr(_answers.Answers, "answer", answer)
    with ScriptedResponses([[REMOVE], "done"]) as api, anyio.fail_after(30):
        provider = against(api, sandbox="danger-full-access", approval_policy="on-request")
        runs.append(provider.start("work", cwd=work, permission=person))  # pyright: ignore[reportArgumentType]
        async with runs[0] as run:
            result = await run.closed()
    assert (result.stop_reason, changed(work)) == ("aborted", False)
    assert answers in ([{"decision": "decline"}], [{"decision": "cancel"}])


async def refused_for_ever(work: Path, **options: object) -> tuple[Told, int]:
    with ScriptedResponses(lambda body, n: [REMOVE] if n < 30 else "done") as api:
        # Longer than the test may take: an end that has to be waited for would be seen.
        options = {"sandbox": "workspace-write", "approval_policy": "on-request", "interrupt_grace": 60, **options}
        return await told(against(api, **options), "work", work, within=30), len(api.requests)


@both_loops
async def test_a_refused_command_that_is_asked_again_and_again_ends_the_run(work: Path) -> None:
    found, requests = await refused_for_ever(work, max_refusals=3)
    failure = found.result.failure
    assert failure is not None
    assert (found.result.stop_reason, failure.kind, failure.stage, failure.retryable) == (
        "error",
        "policy",
        "run",
        False,
    )
    assert failure.message.startswith("3 requests were refused, the last was: Run: /bin/bash -c 'rm -rf kept'.")
    assert "max_refusals" in failure.message
    assert requests == 3
    process = found.result.evidence.process
    assert process is not None
    assert process.clean


async def test_the_bound_of_refusals_can_fail(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant of the test above: nobody counts."""
    refuse: Callable[[object, str], str] = lambda answers, title: "reject_once"  # noqa: E731
    monkeypatch.setattr(_answers.Answers, "_refused", refuse)
    found, requests = await refused_for_ever(work, max_refusals=3)
    assert (found.result.ok, requests) == (True, 30)


@pytest.mark.long
async def test_the_idle_clock_stands_still_while_a_person_is_asked(work: Path) -> None:
    (work / "kept").mkdir()

    async def person(request: PermissionRequest) -> str:
        await anyio.sleep(4)  # longer than the limit: it is the time itself that is tested
        return "allow"

    with ScriptedResponses([[REMOVE], "done"]) as api:
        provider = against(api, sandbox="workspace-write", approval_policy="on-request")
        found = await told(provider, "work", work, permission=person, idle_limit=3)  # pyright: ignore[reportArgumentType]
    assert (found.result.stop_reason, changed(work)) == ("completed", True)
