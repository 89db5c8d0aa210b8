"""Providers for the tests of the command: `echo` plays the script that its task names, else it repeats the task."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
from pydantic import BaseModel, ConfigDict

from subagent_process import child_env, open_process
from subagents import (
    Failure,
    FailureKind,
    Link,
    Model,
    NoticeEvent,
    PermissionOption,
    PermissionRequest,
    PlanEntry,
    PlanEvent,
    Provider,
    Result,
    StartError,
    Task,
    TextEvent,
    ThoughtEvent,
    ToolEvent,
    Usage,
    UsageEvent,
)

HOLD: Final = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.recv(1)"
HIDDEN: Final = "a\x1b[31mb\u202ec"


class EchoOptions(BaseModel):
    """What `-o` can set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    download: bool = True
    temperature: float = 0.0
    base_url: str = ""
    stop: tuple[str, ...] = ()
    extra: dict[str, Any] = {}


class Echo(Provider):
    """Answers with the script's name, or does what the script of that name does."""

    capabilities = frozenset(f.name for f in fields(Task)) | {"send"}
    options_type = EchoOptions
    leave_timeout = 1.0

    def __init__(self, name: str = "echo", **options: Any) -> None:
        self.name = name
        self.options = EchoOptions.model_validate(options)

    async def drive(self, task: Task, link: Link) -> None:
        word, _, rest = task.prompt.partition(" ")
        play = SCRIPTS.get(word)
        if play is None:
            link.ready(session="s-1", model="echo-1")
            link.emit(TextEvent(task.prompt, "m1"))
            link.finish(Result.completed(task.prompt, usage=Usage(3, 2), cost_usd=0.01))
        else:
            await play(self, task, rest, link)

    async def models(self) -> Sequence[Model]:
        return (
            Model("tiny", "Tiny One", context=2048, size=98_000_000, present=True, default=True, licence="MIT"),
            Model("big", context=32768, size=1_100_000_000, present=False),
        )

    async def pull(self, model: str, *, progress: Callable[[NoticeEvent], object] | None = None) -> str:
        if model == "never":
            if progress is not None:
                progress(NoticeEvent("downloading never", "progress", data={"done": 0, "total": None, "unit": "bytes"}))
            await anyio.sleep_forever()
        if model == "nowhere":
            raise LookupError("no source has it; try tiny")
        for done in range(0, 101, 25):
            if progress is not None:
                progress(
                    NoticeEvent(f"downloading {model}", "progress", data={"done": done, "total": 100, "unit": "bytes"})
                )
            await anyio.lowlevel.checkpoint()
        return f"/models/{model}.gguf"


class Plain(Provider):
    """Does nothing but the prompt, and has neither options nor models."""

    def __init__(self, name: str = "plain") -> None:
        self.name = name

    async def drive(self, task: Task, link: Link) -> None:
        link.ready()
        link.finish(Result.completed(task.prompt))


class Reading(Plain):
    """Says that it was made: the task is read after that."""

    def __init__(self, name: str = "reading") -> None:
        super().__init__(name)
        print("made", file=sys.stderr, flush=True)


class Clumsy(Provider):
    """Breaks where no provider should."""

    def __init__(self, name: str = "clumsy") -> None:
        self.name = name

    @property
    def capabilities(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return frozenset(str(1 // 0))

    async def drive(self, task: Task, link: Link) -> None:
        raise NotImplementedError


Script = Callable[[Echo, Task, str, Link], Awaitable[None]]
SCRIPTS: Final[dict[str, Script]] = {}


def script(play: Script) -> Script:
    """Make the function the script of its name."""
    SCRIPTS[getattr(play, "__name__").rstrip("_").replace("_", "-")] = play  # noqa: B009
    return play


@script
async def fail(echo: Echo, task: Task, rest: str, link: Link) -> None:
    link.ready()
    link.emit(TextEvent("half an answer"))
    link.finish(
        Result.error(
            Failure(cast("FailureKind", rest), "run", f"it was {rest}", retry_at=86400.0 if rest == "limit" else None)
        )
    )


@script
async def fail_start(echo: Echo, task: Task, rest: str, link: Link) -> None:
    link.emit(NoticeEvent("looking for the engine"))
    raise StartError(Failure(cast("FailureKind", rest), "start", "no engine here"))


@script
async def end(echo: Echo, task: Task, rest: str, link: Link) -> None:
    link.ready()
    link.finish(Result(cast("Any", rest), "what there was"))


@script
async def fields_(echo: Echo, task: Task, rest: str, link: Link) -> None:
    link.ready()
    link.finish(
        Result.completed(
            f'{{"task":{task.to_json()},"options":{echo.options.model_dump_json()},"max_depth":{echo.max_depth},"name":"{echo.name}"}}'
        )
    )


@script
async def value(echo: Echo, task: Task, rest: str, link: Link) -> None:
    link.ready()
    link.finish(Result.completed(rest))


@script
async def show(echo: Echo, task: Task, rest: str, link: Link) -> None:
    """One of every event."""
    link.emit(NoticeEvent("fetching", "progress", data={"done": 0, "total": 4_000_000, "unit": "bytes"}))
    link.emit(NoticeEvent("fetching", "progress", data={"done": 4_000_000, "total": 4_000_000, "unit": "bytes"}))
    link.emit(NoticeEvent("reading the prompt", "progress", data={"done": 1, "total": 2, "unit": "tokens"}))
    link.emit(NoticeEvent("odd progress", "progress", data={"done": "?"}))
    link.ready(session="s-1", model="echo-1")
    link.emit(ThoughtEvent("let me think"))
    link.emit(TextEvent("I look first.", "m1"))
    link.emit(PlanEvent((PlanEntry("look", "in_progress"), PlanEntry("write"))))
    link.emit(ToolEvent("t1", "ls -la", "execute", "in_progress"))
    link.emit(ToolEvent("t1", "ls -la", "execute", "in_progress"))
    link.emit(ToolEvent("t1", "ls -la", "execute", "completed"))
    link.emit(ToolEvent("t2", "rm x", "delete", "failed", exit_code=1, parent="t1"))
    link.emit(UsageEvent(Usage(1200, 34), 0.5))
    link.emit(NoticeEvent("slow down", "retry", "warning"))
    link.emit(TextEvent("# Done\n\n", "m2"))
    await anyio.sleep(0.01)  # so that it is read before the rest comes
    link.emit(TextEvent("It is *done*.", "m2"))
    await anyio.sleep(0.3 if rest == "slowly" else 0)
    link.finish(Result.completed("# Done\n\nIt is *done*.", usage=Usage(1200, 34), cost_usd=0.5))


@script
async def busy(echo: Echo, task: Task, rest: str, link: Link) -> None:
    link.ready()
    link.emit(ToolEvent("t", "make all", "execute"))
    link.emit(PlanEvent((PlanEntry("look", "completed"), PlanEntry("write", "in_progress"))))
    link.emit(UsageEvent(Usage(12, 3)))
    await anyio.sleep_forever()


@script
async def wide(echo: Echo, task: Task, rest: str, link: Link) -> None:
    """Much of everything, in wide characters."""
    link.ready()
    for n in range(30):
        link.emit(ToolEvent(f"t{n}", "🎉 日本語 " * 20, "execute"))
    link.emit(ToolEvent("t0", "🎉 日本語 " * 20, "execute", "completed"))
    link.emit(PlanEvent(tuple(PlanEntry("👩‍👩‍👧 plan " * 20) for _ in range(30))))
    link.emit(NoticeEvent("日本語" * 50))
    link.emit(NoticeEvent("日本語" * 50, "progress", data={"done": 1, "total": 10, "unit": "bytes"}))
    link.emit(ThoughtEvent("thinking 🎉 " * 100))
    link.emit(TextEvent("text 日本語 🎉 " * 1000))
    await anyio.sleep_forever()


@script
async def download(echo: Echo, task: Task, rest: str, link: Link) -> None:
    """Slow, and never done."""
    done = 1_000_000
    while True:
        data = {"done": done, "total": 4_000_000, "unit": "bytes"}
        link.emit(NoticeEvent("fetching the model", "progress", data=data))
        done = min(done + 20_000, 3_900_000)
        await anyio.sleep(0.02)


@script
async def edit(echo: Echo, task: Task, rest: str, link: Link) -> None:
    link.ready()
    link.emit(ToolEvent("t", "write a.txt", "edit", "completed"))
    link.emit(TextEvent("I have written it."))
    link.finish(Result.completed())


@script
async def hidden(echo: Echo, task: Task, rest: str, link: Link) -> None:
    link.ready()
    link.emit(ThoughtEvent(f"thought {HIDDEN}"))
    link.emit(ToolEvent("t", f"tool {HIDDEN}", status="completed"))
    link.emit(NoticeEvent(f"notice {HIDDEN}"))
    link.emit(PlanEvent((PlanEntry(f"plan {HIDDEN}"),)))
    link.emit(TextEvent(f"answer {HIDDEN} &#x202e;"))
    if rest == "fail":
        link.finish(Result.error(Failure("exit", "run", f"failure {HIDDEN}")))
    link.finish(Result.completed(f"answer {HIDDEN} &#x202e;", model=f"model {HIDDEN}"))


@script
async def ask(echo: Echo, task: Task, rest: str, link: Link) -> None:
    link.ready()
    options = (
        PermissionOption("allow_once", "1"),
        PermissionOption("allow_once", "2", "allow it twice"),
        PermissionOption("allow_always", "3"),
        PermissionOption("reject_once", "4"),
    )
    request = PermissionRequest(
        f"write the file {HIDDEN}", "edit", command="make install", paths=("a.txt",), reason="because", options=options
    )
    if rest == "later":
        await anyio.sleep(1)  # the test types meanwhile
    if rest.startswith("noisily"):

        async def ask_too() -> None:
            await link.ask(request)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_too)
            tasks.start_soon(ask_too)
            await anyio.sleep(0.3)  # the first question is shown
            link.emit(NoticeEvent("news meanwhile"))
            link.emit(ToolEvent("t", "a step meanwhile", status="completed"))
            await anyio.sleep(0.3)  # the news have been read
            await anyio.connect_tcp("127.0.0.1", int(rest.split()[1]))
        link.finish(Result.completed("both"))
        return
    choice = await link.ask(request)
    link.finish(Result.completed(f"{choice.kind}/{choice.option}"))


@script
async def child(echo: Echo, task: Task, rest: str, link: Link) -> None:
    """Own a real child that connects to the port and holds the connection for as long as it lives."""
    async with await open_process([sys.executable, "-I", "-c", HOLD, rest], env=child_env()) as child:
        link.ready()
        link.emit(TextEvent("working"))
        await child.wait()


@script
async def deaf(echo: Echo, task: Task, rest: str, link: Link) -> None:
    """Swallow every cancellation, with a child that lives on."""
    child = await open_process([sys.executable, "-I", "-c", HOLD, rest], env=child_env())
    link.ready()
    link.emit(TextEvent("working"))
    while child.pid:
        try:
            await anyio.sleep_forever()
        except BaseException:  # noqa: BLE001  # this is what it plays
            continue


@script
async def linger(echo: Echo, task: Task, rest: str, link: Link) -> None:
    """Swallow every cancellation after the verdict, with a child that lives on."""
    child = await open_process([sys.executable, "-I", "-c", HOLD, rest], env=child_env())
    link.ready()
    link.finish(Result.completed("the answer"))
    while child.pid:
        try:
            await anyio.sleep_forever()
        except BaseException:  # noqa: BLE001  # this is what it plays
            continue


@script
async def flood(echo: Echo, task: Task, rest: str, link: Link) -> None:
    link.ready()
    while True:
        link.emit(NoticeEvent("more", "unknown", data={"n": 1}))
        await anyio.lowlevel.checkpoint()


@script
async def stuck(echo: Echo, task: Task, rest: str, link: Link) -> None:
    """A thread that outlives its cancellation, as a name lookup does."""
    link.ready()
    link.emit(TextEvent("hanging"))
    await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait, 3600)


@script
async def hang(echo: Echo, task: Task, rest: str, link: Link) -> None:
    link.ready()
    link.emit(TextEvent("hanging"))
    await anyio.sleep_forever()


@script
async def never(echo: Echo, task: Task, rest: str, link: Link) -> None:
    link.emit(NoticeEvent("starting for ever"))
    await anyio.sleep_forever()


@script
async def raise_(echo: Echo, task: Task, rest: str, link: Link) -> None:
    raise ValueError("a bug in the provider")
