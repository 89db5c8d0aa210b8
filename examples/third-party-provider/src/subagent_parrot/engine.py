"""Stands for an agent: one JSON object a line, in both directions.

Reads {"task": …, "voice": …}, says {"type": "hello"}, the pieces of its answer, and {"type": "done"}. A task that
begins with a word of its repertoire makes it do more: work, ask, burst, linger.
"""

from __future__ import annotations

import json
import sys
import time


def say(kind: str, **more: object) -> None:
    """One line."""
    print(json.dumps({"type": kind, **more}), flush=True)


def main() -> None:
    """One task."""
    given = json.loads(sys.stdin.readline())
    task: str = given["task"]
    say("hello", version="1.0")
    if task == "work":
        say("text", text="still thinking")
        sys.stdin.read()  # until it is told to end
        return
    if task == "ask":
        say("ask", title="fly to the window")
        task = "thank you" if json.loads(sys.stdin.readline())["allowed"] else "what a pity"
    if task == "burst":
        for number in range(20_000):
            print(json.dumps({"type": "step", "id": str(number)}))
    for word in task.split():
        say("text", text=f"{word.upper() if given['voice'] == 'loud' else word} ")
    say("done")
    if task == "linger":
        time.sleep(1)  # for the kit: a process that takes its time to end after its last word


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print("parrot 1.0")
    else:
        main()
