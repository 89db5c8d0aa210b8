"""A provider of one's own: any program that prints JSON lines, behind the same contract as the big engines.

Run it: `uv run python examples/own_provider.py`
"""

from __future__ import annotations

import sys

import anyio

import subagents
from subagent_process import child_env, open_process
from subagents import Failure, Link, Result, Task, TextEvent

# Stands for an agent: reads a task, answers word by word, and says when it is done.
AGENT = """
import json, sys
task = json.loads(sys.stdin.readline())["task"]
print(json.dumps({"type": "hello"}), flush=True)
for word in task.upper().split():
    print(json.dumps({"type": "word", "text": word + " "}), flush=True)
print(json.dumps({"type": "done"}), flush=True)
"""


class Shout(subagents.Provider):
    """Answers in capitals."""

    name = "shout"

    async def drive(self, task: Task, link: Link) -> None:
        answer = ""
        async with await open_process([sys.executable, "-c", AGENT], env=child_env(), cwd=task.cwd) as child:
            await child.send_line({"task": task.prompt})
            async for message in child.messages():
                match message:
                    case {"type": "hello"}:
                        link.ready()
                    case {"type": "word", "text": str(text)}:
                        answer += text
                        link.emit(TextEvent(text))
                    case {"type": "done"}:
                        link.finish(Result.completed(answer.strip()))
                        break
                    case _:
                        link.finish(Result.error(Failure("protocol", "run", f"what is {message!r}?")))
                        break
        if child.report:
            link.report(child.report)


async def main() -> None:
    result = await subagents.run(Shout(), "good morning, house")
    print(result.stop_reason, "-", result.output)
    print("left behind:", "nothing" if result.evidence.process and result.evidence.process.clean else "?")


if __name__ == "__main__":
    anyio.run(main)
