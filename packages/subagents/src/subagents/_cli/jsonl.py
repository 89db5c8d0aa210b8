"""`--json`: one event a line, and the result as the last one.  Nothing else is written, on either stream."""

from __future__ import annotations

import json

from subagents import Event, Result
from subagents._cli.streams import write_stdout
from subagents._cli.view import View


class JsonLines(View):
    """A run for programs."""

    async def event(self, event: Event) -> None:
        await write_stdout(f"{event.to_json()}\n")

    async def result(self, result: Result) -> None:
        line = json.dumps({"type": "result", **result.to_dict()}, ensure_ascii=True, separators=(",", ":"))
        await write_stdout(f"{line}\n")
