"""A Runtime that owns many runs: a bound on how many work at once, and a permission callback.

Run it: `uv run python examples/many_at_once.py`
"""

from __future__ import annotations

import anyio

import subagents
from subagents import Choice, Link, PermissionRequest, Result, Task


class Careful(subagents.Provider):
    """Asks before it does anything."""

    name = "careful"

    async def drive(self, task: Task, link: Link) -> None:
        link.ready()
        choice = await link.ask(PermissionRequest(f"do {task.prompt}", "execute", command=task.prompt))
        link.finish(Result.completed(f"{task.prompt}: {'done' if choice.allowed else choice.reason}"))


async def decide(request: PermissionRequest) -> Choice:
    if request.command and request.command.startswith("rm"):
        return Choice("reject_once", reason="nothing is removed here")
    return Choice("allow_once")


async def main() -> None:
    async with subagents.Runtime([Careful()], limit=2) as runtime, anyio.create_task_group() as group:

        async def one(prompt: str) -> None:
            print((await runtime.run("careful", prompt, permission=decide)).output)

        for prompt in ("ls", "rm -rf build", "make"):
            group.start_soon(one, prompt)


if __name__ == "__main__":
    anyio.run(main)
