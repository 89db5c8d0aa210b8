"""One task on one `claude`, from its start to its end."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.abc
import anyio.lowlevel
from anyio import to_thread

from subagent_claude_code._agents import definition
from subagent_claude_code._answers import Answers
from subagent_claude_code._argv import arguments, settings
from subagent_claude_code._binary import FLOOR, PINNED, Binary, too_old
from subagent_claude_code._environment import engine_env, hand_on, tools_file
from subagent_claude_code._home import Home
from subagent_claude_code._instructions import project_instructions
from subagent_claude_code._servers import servers_of, write_servers
from subagent_claude_code._turn import Turn
from subagent_claude_code._wire import UserMessage, Wire
from subagent_process import (
    Ladder,
    LineTooLong,
    OwnedProcess,
    ProcessLost,
    ShutdownReport,
    StderrTail,
    open_process,
    tool_env,
)
from subagents import Evidence, Failure, FailureKind, Link, NoticeEvent, Result, StartError, Task
from subagents.backend.programs import exit_words, has_ended
from subagents.backend.toolchains import read_above
from subagents.backend.values import one_line, text_in

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeSDKClient, PermissionResultAllow, PermissionResultDeny, Transport

    from subagent_claude_code.options import ClaudeCodeOptions

_SDK_VERSION: Final = "0.2.189"  # that this speaks as
_LAST_WORDS: Final = 0.5  # s for the exit status and the end of stderr, once the process has stopped speaking
_ON_ITS_WAY: Final = 1.0  # s after which a message that was sent into an idle engine has begun a turn
_DISCONNECT: Final = 1.0  # s for the SDK's own tasks to end


class Drive:
    """The parts of one run, and the order in which they are used."""

    def __init__(
        self, task: Task, link: Link, options: ClaudeCodeOptions, key: str | None, binary: Binary, home: Home
    ) -> None:
        assert isinstance(task.cwd, str)
        self._task, self._cwd, self._link = task, task.cwd, link
        self._options, self._key, self._binary, self._home = options, key, binary, home
        self._accepted, self._over, self._tools_open = anyio.Event(), anyio.Event(), anyio.Event()
        self._turn_ended = anyio.Event()  # one of its turns, since this was last made anew
        self._rests = anyio.Event()  # likewise: it is at nothing, although a message has no answer
        self._stderr_ended = anyio.Event()
        self._turn = Turn(
            link.emit,
            accepted=self._accept,
            ended=lambda: self._turn_ended.set(),
            rests=lambda: self._rests.set(),
            over=lambda: self._over.set(),
            asked_tools=task.tools or (),
            asked_servers=tuple(servers_of(options.mcp_servers, task.tools)),
        )
        self._gave_up: Failure | None = None
        self._asked = self._told = False  # the prompt went out; the verdict is given
        self._client: ClaudeSDKClient | None = None

    async def run(self) -> None:
        """Start, work, end; nothing is left afterwards."""
        options, home = self._options, self._home
        self._env = engine_env(options, home, self._key, _SDK_VERSION)
        instructions = None
        if text := await self._instructions():
            instructions = home.own / "instructions.md"
            instructions.write_text(text, encoding="utf-8")
        argv = [str(self._binary.path), *arguments(settings(options, self._task, instructions, await self._servers()))]
        ladder = Ladder(eof=options.eof_grace, term=options.term_grace)
        process = await open_process(argv, env=self._env, cwd=self._cwd, ladder=ladder, home=home.private)
        try:
            async with process:
                await self._speak(process)
        finally:
            self._link.report(process.report or ShutdownReport())

    async def _open_tools(self) -> None:
        """What commands get; the engine reads it at the first command."""
        options, home = self._options, self._home
        tools = await tool_env(self._cwd, home.private, real=options.tool_home == "real")
        hand_on(home, self._env, tools.variables)
        if home.config is not None and (notice := read_above(tools)):
            self._link.emit(notice)
        self._answers = Answers(
            self._link,
            mode=options.permission_mode,
            roots=(self._cwd, *map(str, tools.writable)),
            max_refusals=options.max_refusals,
            give_up=self._give_up,
        )
        self._tools_open.set()

    async def _open_tools_meanwhile(self) -> None:
        try:
            await self._open_tools()
        except FileNotFoundError:
            if not await has_ended(self._process, _LAST_WORDS):
                raise
            self._tools_open.set()  # the home goes with the engine, and whoever waits for this says how it ended

    async def _servers(self) -> Path | None:
        """The file that names the MCP servers; they are started with what commands get, so that is found out before."""
        servers = servers_of(self._options.mcp_servers, self._task.tools)
        if not servers:
            return None
        await self._open_tools()
        return write_servers(self._home.own, servers, tools_file(self._home))

    async def _instructions(self) -> str:
        project = await project_instructions(self._cwd) if self._options.project_instructions else ""
        return "\n\n".join(text for text in (project, self._task.instructions) if text)

    async def _speak(self, process: OwnedProcess) -> None:
        self._process, self._stderr = process, StderrTail(process.stderr)
        self._wire = Wire(process, told=self._turn.told, ended=self._ended)
        async with anyio.create_task_group() as tasks:
            drained = anyio.CancelScope(shield=True)  # the polite end of a cancelled run still needs it

            async def drain() -> None:
                with drained:
                    await self._stderr.run()
                    self._stderr_ended.set()

            tasks.start_soon(drain)
            if not self._tools_open.is_set():
                tasks.start_soon(self._open_tools_meanwhile)
            try:
                await self._work(tasks)
            finally:
                try:
                    await self._part()
                finally:  # also when a raw cancellation cuts that short: nothing else ends the drain
                    drained.cancel()
                    tasks.cancel_scope.cancel()

    async def _work(self, tasks: anyio.abc.TaskGroup) -> None:
        sdk = await to_thread.run_sync(import_module, "claude_agent_sdk", abandon_on_cancel=True)
        self._allow, self._deny = sdk.PermissionResultAllow, sdk.PermissionResultDeny
        # What is written goes as it is: neither `@/etc/hostname` nor `/clear` in a prompt is an order.
        agents = {name: sdk.AgentDefinition(**definition(agent)) for name, agent in self._options.agents.items()}
        options = sdk.ClaudeAgentOptions(can_use_tool=self._can_use_tool, verbatim_prompts=True, agents=agents or None)
        client: ClaudeSDKClient = sdk.ClaudeSDKClient(options, transport=cast("Transport", self._wire))
        self._client = client
        await self._before("the handshake", client.connect)
        await self._check_version(client)
        await self._tools_open.wait()
        self._asked = True
        await self._before("the task", lambda: self._say(client, self._task.prompt))
        await self._before("the task", self._accepted.wait)
        tasks.start_soon(self._send, client)
        tasks.start_soon(self._give_up_late)
        await self._finished()
        verdict = await self._verdict()
        self._told = True
        self._link.finish(verdict)

    async def _finished(self) -> None:
        """Until no turn is owed; a message that was accepted at that very moment gets its own."""
        await self._over.wait()
        await anyio.lowlevel.checkpoint()
        while self._gave_up is None and not self._turn.over:
            self._over = anyio.Event()
            await self._over.wait()
            await anyio.lowlevel.checkpoint()

    async def _check_version(self, client: ClaudeSDKClient) -> None:
        version = text_in(await client.get_server_info() or {}, "claude_code_version")
        if too_old(version):
            reason = (
                f"{self._binary.path} is claude {version or 'of a version that it does not say'}, and {FLOOR} is the"
                " oldest that takes a prompt as text alone. To do: update it, or leave `executable` away."
            )
            raise StartError(Failure("launch", "start", reason))
        if version != PINNED:
            self._link.emit(NoticeEvent(f"claude {one_line(version)}, tested with {PINNED}", "version"))

    async def _before(self, what: str, body: Callable[[], Awaitable[object]]) -> None:
        """One step before the task is accepted; it ends when nothing more will come."""
        broken: Exception | None = None
        with anyio.move_on_after(self._options.ready_timeout) as patience:
            async with anyio.create_task_group() as tasks:

                async def watch() -> None:
                    await self._over.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(watch)
                try:
                    await body()
                except Exception as error:  # noqa: BLE001  # the SDK raises bare ones
                    broken = error
                tasks.cancel_scope.cancel()
        if patience.cancelled_caught:
            reason = f"claude did not take {what} in {self._options.ready_timeout:g} s; ready_timeout is the bound"
            raise StartError(Failure("timeout", "start", reason, retryable=True))
        if self._over.is_set() and not self._accepted.is_set():
            raise StartError(await self._refusal()) from broken
        if broken is not None:
            raise StartError(Failure("protocol", "start", f"the SDK could not pass {what} on: {broken}")) from broken

    async def _send(self, client: ClaudeSDKClient) -> None:
        async for text in self._link.inbox:
            if self._told:  # it was accepted in the moment of the verdict
                self._link.note("a message that was sent at the end got no answer")
            else:
                await self._say(client, text)

    async def _say(self, client: ClaudeSDKClient, text: str) -> None:
        """A message under a name of its own: the engine says by it which messages a result answers."""
        name = str(uuid.uuid4())
        self._turn.sent(name)
        await client.query(UserMessage(text, name))

    async def _give_up_late(self) -> None:
        """A message that came into an engine at nothing may begin no turn: it is not waited for."""
        while True:
            await self._rests.wait()
            self._rests, heard = anyio.Event(), -1
            while self._turn.owed.resting and self._turn.owed.pending:
                if self._turn.heard == heard:
                    self._turn.give_up()
                    break
                heard = self._turn.heard
                await anyio.sleep(_ON_ITS_WAY)

    async def _can_use_tool(
        self, tool: str, given: dict[str, Any], context: object
    ) -> PermissionResultAllow | PermissionResultDeny:
        answer = await self._answers.decide(tool, given, context)
        return self._allow() if answer.allowed else self._deny(message=answer.reason)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _part(self) -> None:
        """Stop it politely, and end the SDK's tasks; each is bounded, and a raw cancellation cuts off only the one."""
        try:
            with anyio.move_on_after(self._options.interrupt_grace, shield=True):
                await self._stop()
        finally:
            with anyio.move_on_after(_DISCONNECT, shield=True):
                await self._disconnect()

    async def _stop(self) -> None:
        """Interrupt what still runs, so that the engine ends its commands; bounded by the caller."""
        if self._client is None or not self._asked or self._process.returncode is not None:
            return
        if self._turn.over and self._gave_up is None:
            return
        self._turn_ended = anyio.Event()
        with suppress(Exception):  # the ladder does the rest
            await self._client.interrupt()
            await self._turn_ended.wait()

    async def _disconnect(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                await self._client.disconnect()

    def _ended(self, error: Exception | None) -> None:
        if isinstance(error, LineTooLong):
            reason = (
                f"claude wrote a line of {error.size:,} bytes, and {error.limit:,} are the limit. To do: ask for less"
                " at once, in the prompt."
            )
            self._gave_up = self._gave_up or Failure("protocol", self._stage, reason)
        elif error is not None:
            reason = f"what claude wrote could not be read: {type(error).__name__}: {error}"
            self._gave_up = self._gave_up or Failure("protocol", self._stage, reason)
        self._turn.finish()
        self._turn_ended.set()

    def _accept(self) -> None:
        self._accepted.set()
        self._link.ready(session=self._turn.session, model=self._turn.model)

    def _give_up(self, failure: Failure) -> None:
        self._gave_up = self._gave_up or failure
        self._over.set()

    @property
    def _stage(self) -> str:
        return "run" if self._accepted.is_set() else "start"

    async def _verdict(self) -> Result:
        turn = self._turn
        if self._gave_up is None and turn.answered:
            return turn.outcome(_now())
        failure = self._gave_up or await self._exit("exit")
        return Result.error(
            failure,
            output=turn.answer,
            usage=turn.usage,
            cost_usd=turn.cost,
            session=turn.session,
            model=turn.model,
            evidence=Evidence(notes=turn.notes),
        )

    async def _refusal(self) -> Failure:
        """Why the task was not accepted."""
        if self._gave_up is None and self._turn.owed.results:
            failure = self._turn.ending(_now()).failure
            if failure is not None:
                return Failure(
                    failure.kind, "start", failure.message, failure.retryable, failure.retry_at, failure.http_status
                )
        return self._gave_up or await self._exit("launch")

    async def _exit(self, kind: FailureKind) -> Failure:
        """The failure of a process that has stopped speaking."""
        code: int | None = None
        with anyio.move_on_after(_LAST_WORDS), suppress(ProcessLost):
            code = await self._process.wait()
            await self._stderr_ended.wait()
        when = "before its result" if self._stage == "run" else "before it took the task"
        said = self._stderr.text.strip()
        words = f"; its last words:\n{said[-2000:]}" if said else ""
        if noise := "\n".join(self._wire.noise):
            words += f"; what it wrote that is no message:\n{noise[-1000:]}"
        return Failure(kind, self._stage, f"claude {exit_words(code)} {when}{words}", exit_code=code)


def _now() -> datetime:
    return datetime.now().astimezone()
