"""A scripted server as a program: `server_program.py KIND` prints its address, and ends with its standard input.

In a process of its own its threads and sockets are not taken for what a provider has left behind.
"""

from __future__ import annotations

import json
import sys
import threading

from dialect_kit import KINDS, without_end
from local_kit import Reply, Seen, running_site


def main(name: str) -> None:
    kind = KINDS[name]
    whole, burst = kind.answer("0 "), kind.answer(*(f"{number} " for number in range(5000)))

    def answer(seen: Seen) -> Reply:
        """What the prompt says."""
        prompt = json.loads(seen.body)["messages"][-1]["content"]
        if prompt == "lasts":
            cut = len(without_end(whole).body)
            return Reply(whole.body, headers=whole.headers, cut=cut, hold=threading.Event(), length=False)
        return burst if prompt == "bursts" else whole

    with running_site() as site:
        site.scripts.update(kind.pages())
        site.scripts[kind.chat] = answer
        print(site.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
