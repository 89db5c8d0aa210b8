"""One task on one app-server, from its start to its end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.abc

from subagent_codex import _templates
from subagent_codex._answers import Answers
from subagent_codex._binary import Binary
from subagent_codex._bounds import Bounds
from subagent_codex._guard import Guard
from subagent_codex._home import Home, hidden_variables, key_variables, speaks_about
from subagent_codex._instructions import project_instructions
from subagent_codex._patience import Patience
from subagent_codex._placeholders import Placeholders
from subagent_codex._sandbox import Opened, opened
from subagent_codex._session import Session, sign_in, text_input
from subagent_codex._settings import (
    DEFAULT_MODEL,
    PROFILE,
    PROVIDER,
    arguments,
    bare_settings,
    own_provider,
    process_settings,
    profiled,
    thread_config,
    wider,
)
from subagent_codex._stderr import EXPECTED, Stderr
from subagent_codex._turn import Turn
from subagent_process import (
    InvalidAnswer,
    Ladder,
    LineTooLong,
    OwnedProcess,
    Peer,
    PeerClosed,
    ProcessLost,
    RpcError,
    ShutdownReport,
    child_env,
    open_process,
)
from subagents import Evidence, Failure, Link, NoticeEvent, Result, StartError, Task
from subagents.backend.programs import exit_words, has_ended
from subagents.backend.values import object_in, text_in

if TYPE_CHECKING:
    from subagent_codex.options import CodexOptions

_LAST_WORDS: Final = 0.5  # s for the exit status and the end of stderr, once the process has stopped speaking


class Drive:
    """The parts of one run, and the order in which they are used."""

    def __init__(
        self, task: Task, link: Link, options: CodexOptions, key: str | None, binary: Binary, home: Home
    ) -> None:
        assert isinstance(task.cwd, str)
        self._task, self._cwd, self._link = task, task.cwd, link
        self._options, self._key, self._binary, self._home = options, key, binary, home
        self._over = anyio.Event()  # the turn has ended, or nothing more will come
        self._turn_ended = anyio.Event()
        self._turn_begun = anyio.Event()
        self._heard = anyio.Event()  # nothing more is said into the turn
        self._turn = Turn(link.emit, accepted=self._accepted, ended=self._ended, cwd=self._cwd)
        self._gave_up: Failure | None = None
        self._patience = Patience(options.silence_timeout, self._busy, self._give_up)
        self._refused: StartError | PeerClosed | None = None  # turn/start was not taken
        self._model: str | None = None
        self._project = ""  # its instructions
        self._aftermath = ExitStack()  # what is put in order when nothing of the engine is left
        self._sandbox_open = anyio.Event()
        self._answers: Answers | None = None
        self._told = False  # what it wrote on its standard error is in the failure

    async def run(self) -> None:
        """Start, work, end; nothing is left afterwards."""
        options, home = self._options, self._home
        trust = options.home != "inherit" or not speaks_about(home.theirs, self._cwd)
        if options.project_instructions and trust:
            self._project = await project_instructions(self._cwd)
        settings = process_settings(options, self._cwd, keyed=self._key is not None, trust=trust)
        strict = [] if options.home == "inherit" else ["--strict-config"]
        argv = [self._binary.path, "app-server", *strict, *arguments(settings)]
        ladder = Ladder(eof=options.eof_grace, term=options.term_grace)
        template = None
        if options.home == "isolated" and not self._binary.script:
            key = _templates.key(self._binary.path)
            template = key if key is not None and not await _templates.prepare(home.codex, key) else None
        with self._aftermath:
            process = await open_process(argv, env=self._env(), cwd=home.private.root, ladder=ladder, home=home.private)
            try:
                async with process:
                    await self._speak(process, template)
            finally:
                self._link.report(process.report or ShutdownReport())

    async def _open_sandbox(self) -> None:
        """What commands get and may write: found out while the engine starts, and needed by its thread."""
        options, link = self._options, self._link
        try:
            sandbox = await opened(options, self._cwd, self._home.private)
        except FileNotFoundError:
            if not await has_ended(self._process, _LAST_WORDS):
                raise
            self._params = {}  # the home went with the engine, and whatever is asked of that now says how it ended
            self._sandbox_open.set()
            return
        try:
            self._aftermath.enter_context(Guard(sandbox.git, link.note, closed=profiled(options)))
        except OSError as error:
            sandbox = sandbox.without_git(f"a commit will be refused: {error}")
        if sandbox.git.reason:
            link.emit(NoticeEvent(sandbox.git.reason, "git"))
        if sandbox.notice is not None:
            link.emit(sandbox.notice)
        self._params = self._thread_params(sandbox)
        bounds = Bounds(
            self._turn, options.approval_policy, options.sandbox, sandbox.roots, sandbox.closed, options.network_access
        )
        self._answers = Answers(link, bounds, max_refusals=options.max_refusals, give_up=self._give_up)
        self._aftermath.enter_context(Placeholders(*sandbox.roots, active=options.sandbox == "workspace-write"))
        self._sandbox_open.set()

    def _env(self) -> dict[str, str]:
        home, options = self._home, self._options
        if options.home == "inherit":
            # Its own TMPDIR, which commands may write in: in /tmp are the homes of all runs.
            own = {"CODEX_HOME": str(home.codex), "TMPDIR": str(home.private.path("tmp"))}
            found = child_env(set=own, passing=key_variables(home.theirs))
            found.pop("RUST_LOG", None)  # megabytes on its stderr
            return found
        found = child_env(minimal=True, home=home.private, set={"CODEX_HOME": str(home.codex)})
        if self._binary.path_folder is not None:
            found["PATH"] = _engine_path(self._binary.path_folder, found.get("PATH", os.defpath), home)
        return found

    def _thread_params(self, sandbox: Opened) -> dict[str, Any]:
        options, task = self._options, self._task
        default = None if options.home == "inherit" else DEFAULT_MODEL
        found: dict[str, Any] = {
            "cwd": self._cwd,
            "approvalPolicy": options.approval_policy,
            "model": task.model or options.model or default,
            "config": thread_config(
                options,
                key=self._key,
                tools=sandbox.tools,
                filesystem=sandbox.filesystem,
                hidden=hidden_variables(self._home.theirs),
            ),
        }
        if not profiled(options):
            found["sandbox"] = options.sandbox
        if task.resume is None:
            found |= {"ephemeral": not self._home.lasts, "experimentalRawEvents": True}
        if own_provider(options, keyed=self._key is not None):
            found["modelProvider"] = PROVIDER
        if task.instructions is not None:
            found["developerInstructions"] = task.instructions
        return found

    async def _speak(self, process: OwnedProcess, template: str | None) -> None:
        options, link = self._options, self._link
        self._peer = Peer(process, answer=self._answer, notified=self._notified, envelope=False)
        self._session = Session(self._peer, timeout=options.ready_timeout)
        self._stderr, self._process = Stderr(process.stderr, link.emit), process
        async with anyio.create_task_group() as tasks:
            # Shielded: the polite end of a cancelled run still needs both.
            pumps = [self._pump(tasks, self._stderr.run), self._pump(tasks, self._listen)]
            tasks.start_soon(self._open_sandbox)
            if template is not None:
                bare = [self._binary.path, "app-server", "--strict-config", *arguments(bare_settings())]
                tasks.start_soon(_templates.make, bare, template)
            try:
                await self._work(tasks)
            finally:
                ended = self._turn.ended  # by itself: not by what comes now
                if self._answers is not None:
                    self._answers.close()
                try:
                    with anyio.move_on_after(options.interrupt_grace, shield=True):
                        await self._stop()
                finally:  # also when a raw cancellation cuts that short: nothing else ends the pumps
                    for pump in pumps:
                        pump.cancel()
                    tasks.cancel_scope.cancel()
                    if not ended and not self._told and (said := self._stderr.text):
                        link.note(f"codex wrote on its standard error: {said}")

    def _pump(self, tasks: anyio.abc.TaskGroup, body: Callable[[], Awaitable[object]]) -> anyio.CancelScope:
        scope = anyio.CancelScope(shield=True)

        async def pumped() -> None:
            with scope:
                await body()

        tasks.start_soon(pumped)
        return scope

    async def _listen(self) -> None:
        try:
            await self._peer.run()
        except LineTooLong as error:
            reason = (
                f"codex wrote a line of {error.size:,} bytes, and {error.limit:,} are the limit. To do: ask for less at"
                " once, in the prompt."
            )
            self._give_up(Failure("protocol", "run" if self._turn.accepted else "start", reason))
        finally:
            self._over.set()

    async def _work(self, tasks: anyio.abc.TaskGroup) -> None:
        task, options, session = self._task, self._options, self._session
        try:
            await session.initialize(self._home.codex)
            if options.base_url is None:
                await (
                    session.check_account(sign_in(self._binary.path))
                    if self._key is None
                    else session.sign_in(self._key)
                )
            await self._sandbox_open.wait()
            thread = await session.open_thread(self._params, task.resume)
        except PeerClosed as closed:
            raise StartError(await self._exit("launch")) from closed
        if self._gave_up is not None:
            raise StartError(self._gave_up)
        if profiled(options) and text_in(object_in(thread, "activePermissionProfile"), "id") != PROFILE:
            reason = "codex did not take the permission profile of the run, and its sandbox would be another one"
            raise StartError(Failure("protocol", "start", reason))
        if wider(text_in(object_in(thread, "sandbox"), "type"), options.sandbox):
            reason = f"codex opened a sandbox that is wider than {options.sandbox}"
            raise StartError(Failure("protocol", "start", reason))
        self._turn.thread = text_in(object_in(thread, "thread"), "id") or None
        if not self._turn.thread:  # nothing that comes could be told from what other threads say
            raise StartError(Failure("protocol", "start", "codex opened a thread and did not say its id"))
        self._model = text_in(thread, "model") or None
        tasks.start_soon(self._start_turn)
        tasks.start_soon(self._steer)
        tasks.start_soon(self._patience.run)
        await self._over.wait()
        if self._refused is not None:
            if isinstance(self._refused, PeerClosed):
                raise StartError(await self._exit("launch")) from self._refused
            raise self._refused
        self._link.finish(await self._verdict())
        if self._turn.accepted:  # what was said into it at the last moment is answered, or noted
            with anyio.move_on_after(options.interrupt_grace) as patience:
                await self._heard.wait()
            if patience.cancelled_caught:
                self._link.note("a message may not have reached the turn: codex has not answered turn/steer")

    async def _start_turn(self) -> None:
        task, options = self._task, self._options
        params: dict[str, Any] = {"threadId": self._turn.thread, "input": text_input(self._project, task.prompt)}
        if effort := task.effort or options.effort:
            params["effort"] = effort
        if task.output_schema is not None:
            params["outputSchema"] = task.output_schema
        try:
            answer = await self._session.start_turn(params)
        except (StartError, PeerClosed) as error:
            if not self._turn.accepted:
                self._refused = error
                self._over.set()
        else:
            self._turn.begin(text_in(object_in(answer, "turn"), "id"))

    async def _steer(self) -> None:
        await self._turn_begun.wait()
        async for text in self._link.inbox:
            try:
                await self._session.steer(self._turn.thread or "", self._turn.id or "", text)
            except (RpcError, PeerClosed, InvalidAnswer, TimeoutError) as error:
                reason = f"a message did not reach the turn: {error}"
                if self._over.is_set():  # an event would be late
                    self._link.note(reason)
                else:
                    self._link.emit(NoticeEvent(reason, "send", "warning"))
        self._heard.set()

    async def _stop(self) -> None:
        if self._turn.thread is not None and self._process.returncode is None and not self._turn_ended.is_set():
            await self._session.stop(self._turn.thread, self._turn.id, self._turn_ended)

    # -- what is told --------------------------------------------------------------------------------------------------

    async def _answer(self, method: str, params: dict[str, object]) -> object:
        await self._sandbox_open.wait()  # it decides what may be allowed; normally open long before anything is asked
        assert self._answers is not None
        return await self._answers.answer(method, params)

    def _notified(self, method: str, params: dict[str, object]) -> None:
        if method == "configWarning":
            summary = str(params.get("summary"))
            if EXPECTED in summary:
                return
            if summary.startswith("Invalid configuration"):
                reason = f"the configuration in {self._home.codex} is broken, and codex would run without it: "
                self._give_up(Failure("launch", "start", reason + str(params.get("details") or summary)))
        self._patience.touch()
        self._turn.notified(method, params)

    def _busy(self) -> bool:
        return self._turn.busy or (self._answers is not None and self._answers.asking)

    def _accepted(self) -> None:
        self._turn_begun.set()
        self._link.ready(session=self._turn.thread, model=self._model)

    def _ended(self) -> None:
        self._turn_ended.set()
        self._over.set()

    def _give_up(self, failure: Failure) -> None:
        self._gave_up = self._gave_up or failure
        self._over.set()

    async def _verdict(self) -> Result:
        if self._turn.ended:
            return self._turn.outcome()
        failure = await self._exit("exit")
        return Result.error(
            failure, output=self._turn.text, usage=self._turn.usage, evidence=Evidence(notes=self._turn.notes)
        )

    async def _exit(self, kind: Any) -> Failure:
        """The failure of a process that has stopped speaking, unless it was given up for another reason."""
        with anyio.move_on_after(_LAST_WORDS):
            await self._over.wait()  # a request may fail a moment before its cause is known here
        if self._gave_up is not None:
            return self._gave_up
        code: int | None = None
        with anyio.move_on_after(_LAST_WORDS), suppress(ProcessLost):
            code = await self._process.wait()
        when = "before its turn was over" if self._turn.accepted else "before it took the task"
        said = await self._stderr.last_words(_LAST_WORDS)
        self._told = True
        words = f"; its last words:\n{said[-2000:]}" if said else ""
        if noise := "\n".join(self._peer.noise):
            words += f"; what it wrote that is no message:\n{noise[-1000:]}"
        message = f"codex {exit_words(code)} {when}{words}"
        return Failure(kind, "run" if self._turn.accepted else "start", message, exit_code=code)


def _engine_path(tools: Path, path: str, home: Home) -> str:
    """All that the engine needs: what comes with it, and the system's bwrap, which a kernel may demand (AppArmor).

    It runs lsb_release, getconf, git and others when it finds them, and starts a fifth slower (observed).
    """
    if (bwrap := shutil.which("bwrap", path=path)) is None:
        return str(tools)
    folder = home.private.path("bin")
    (folder / "bwrap").symlink_to(os.path.realpath(bwrap))
    return os.pathsep.join((str(tools), str(folder)))
