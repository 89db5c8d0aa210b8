"""Whether a new text breaks the syntax of its file: `.py`, `.pyi`, `.json`, `.toml`, where the old text could be read.

Nobody asks for a syntax error, and a small model that escapes a quote wrongly or loses an indent makes one. Python is
compiled, never run, by the version that runs this; what is too new for it is not judged, unless it could read the file
as it was.

Texts of any origin are parsed here, and some take minutes or gigabytes, which no stop interrupts. So a text of more
than 64 KiB is not judged, nor TOML with a line of a thousand dots (`tomllib` is quadratic in them), and Python is
compiled without its `finally` blocks: the compiler copies each to every way out, nested ones doubly.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Final, cast

import anyio.lowlevel
from anyio import to_thread

from subagent_local._files.rewrite import Unusable
from subagent_workspace import Rewrite
from subagents import visible

_LONGEST: Final = 64 << 10
_MOST_DOTS: Final = 1_000  # in a line of TOML
_UNREADABLE: Final = (ValueError, SyntaxError, RecursionError, MemoryError)  # the last: nested too deeply for its stack


async def check_syntax(rewrites: Iterable[Rewrite]) -> None:
    """Refuse new texts that break the syntax of their files.

    Raises:
        Unusable: with the path, and what is wrong in which line.
    """
    for rewrite in rewrites:
        suffix = re.search(r"\.[a-z]+\Z", rewrite.file.path.lower())
        parse = _PARSERS.get(suffix[0]) if suffix else None
        texts = (rewrite.file.text, rewrite.text)
        if parse is None or any(len(text) > _LONGEST for text in texts):
            continue
        if rewrite.file.text.strip() and await _error(parse, rewrite.file.text) is not None:
            continue
        if error := await _error(parse, rewrite.text):
            raise Unusable(f"{rewrite.file.path} would have an error of syntax that it has not now ({error})")


async def _error(parse: Callable[[str], object], text: str) -> str | None:
    try:
        if parse is _python:
            # Not in a thread: `catch_warnings` is the process's own there, and the compiler keeps the GIL anyway.
            await anyio.lowlevel.checkpoint()
            parse(text.removeprefix("\ufeff"))
        else:
            await to_thread.run_sync(parse, text.removeprefix("\ufeff"), abandon_on_cancel=True)
    except _UNREADABLE as error:
        line = cast("object", getattr(error, "lineno", None))
        said = visible(str(getattr(error, "msg", "") or type(error).__name__)[:200])
        return f"line {line}: {said}" if line else said
    return None


def _python(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the file: nobody's business here
        source = _without_finally(ast.parse(text)) if "finally" in text else text
        compile(source, "<answer>", "exec", dont_inherit=True)


def _without_finally(tree: ast.Module) -> ast.Module:
    """The same with what stands in `finally` behind the `try`, where the same rules of syntax hold for it."""
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        for _, value in ast.iter_fields(node):
            if isinstance(value, list):
                _moved_behind(cast("list[object]", value))
        nodes += ast.iter_child_nodes(node)
    return ast.fix_missing_locations(tree)


def _moved_behind(body: list[object]) -> None:
    for place, node in enumerate(body):  # comes to what is put in, too
        if isinstance(node, (ast.Try, ast.TryStar)) and node.finalbody:
            body[place + 1 : place + 1] = node.finalbody
            node.finalbody = []
            node.handlers = node.handlers or [ast.ExceptHandler(body=[ast.Pass()])]


def _toml(text: str) -> None:
    if all(line.count(".") < _MOST_DOTS for line in text.split("\n")):
        tomllib.loads(text)


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    ".py": _python,
    ".pyi": _python,
    ".json": json.loads,
    ".toml": _toml,
}
