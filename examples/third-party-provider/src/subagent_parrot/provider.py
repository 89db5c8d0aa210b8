"""`Parrot`: one task, one process that is owned, one answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Unpack

import anyio
from pydantic import BaseModel

from subagent_parrot.options import ParrotFields, ParrotOptions
from subagent_process import OwnedProcess, ProcessError, StderrTail, child_env, open_process, run_command
from subagents import Failure, Link, Model, PermissionRequest, Probe, Provider, Result, Task, TextEvent, ToolEvent

ENGINE = Path(__file__).with_name("engine.py")
INSTALL = "give a Python as the option executable"


class Parrot(Provider):
    """Repeats its task."""

    options_type: ClassVar[type[BaseModel] | None] = ParrotOptions
    capabilities: frozenset[str] = frozenset()  # no Task field beyond those that the seam takes care of

    def __init__(self, name: str = "parrot", **options: Unpack[ParrotFields]) -> None:
        """Configure; nothing starts here, and no file is touched."""
        self.name = name
        self.options = ParrotOptions.model_validate(options)

    async def drive(self, task: Task, link: Link) -> None:
        """Do one task. Whatever happens, leaving `open_process` ends the child and all that it started."""
        argv = [self.options.executable, "-I", "-S", ENGINE]
        async with await open_process(argv, env=child_env(), cwd=task.cwd) as child:
            said, answered = StderrTail(child.stderr), False
            code: int | None = None
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(said.run)  # a child whose standard error nobody reads stands still one day
                answered = await self._follow(child, task, link)
                if not answered:
                    code = await child.wait()
                tasks.cancel_scope.deadline = anyio.current_time() + (0 if answered else 1)  # for its last words
            if not answered:
                why = f"the parrot fell silent with exit code {code}. {said.text}".strip()
                link.finish(Result.error(Failure("exit", "run", why, exit_code=code)))
        if child.report is not None:
            link.report(child.report)

    async def _follow(self, child: OwnedProcess, task: Task, link: Link) -> bool:
        """Tell what it says, up to its terminal message; False when it ended without one."""
        answer = ""
        await child.send_line({"task": task.prompt, "voice": self.options.voice})
        async for message in child.messages():
            match message:
                case {"type": "hello"}:
                    link.ready()  # it has accepted the work: entering the run returns
                case {"type": "text", "text": str(text)}:
                    answer += text
                    link.emit(TextEvent(text))
                case {"type": "step", "id": str(step)}:
                    link.emit(ToolEvent(step, "flap"))
                case {"type": "ask", "title": str(title)}:
                    choice = await link.ask(PermissionRequest(title))
                    await child.send_line({"allowed": choice.allowed})
                case {"type": "done"}:
                    link.finish(Result.completed(answer.strip()))  # the verdict; what follows cannot change it
                    return True
                case _:  # what a later parrot says and this provider does not know
                    pass
        return False

    async def _probe(self) -> Probe:
        """What is here, bounded and folded by the seam: it may raise, and it may be slow."""
        program = self.options.executable
        if not os.access(program, os.X_OK):
            return Probe(False, detail=f"{program} cannot be started", fix=INSTALL)
        try:
            done = await run_command([program, "-I", "-S", ENGINE, "--version"], env=child_env(), timeout=10)
        except ProcessError as error:
            return Probe(False, detail=str(error), fix=INSTALL)
        name, _, version = done.stdout.decode(errors="replace").strip().partition(" ")
        if done.exit != 0 or name != "parrot":
            return Probe(False, detail=f"{program} runs no parrot", fix=INSTALL)
        return Probe(True, version, str(program), detail="it can talk")

    async def models(self) -> Sequence[Model]:
        """A parrot has one, and no task can choose another."""
        return (Model("grey", "African grey", present=True, default=True),)
