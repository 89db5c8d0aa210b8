"""New texts that break the syntax of their files are refused; what would take minutes or gigabytes is not judged."""

from __future__ import annotations

import ast
import threading
import warnings
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from subagent_local._files import syntax
from subagent_local._files.rewrite import Unusable
from subagent_local._files.syntax import check_syntax
from subagent_workspace import Rewrite, read_files

pytestmark = pytest.mark.anyio

OLD = {".py": "a = 1\n", ".pyi": "a: int\n", ".json": '{"a": 1}\n', ".toml": "a = 1\n", ".md": "# Notes\n"}


async def judged(folder: Path, suffix: str, text: str, old: str | None = None) -> str | None:
    """Why a new text is refused."""
    old = OLD[suffix] if old is None else old
    (folder / f"f{suffix}").write_text(old, newline="")
    (file,) = read_files(folder, write=[f"f{suffix}"]).write
    with anyio.fail_after(20):
        try:
            await check_syntax([Rewrite(file, text)])
        except Unusable as error:
            return str(error)
    return None


WRONG: dict[str, tuple[str, str]] = {
    "half a definition": (".py", "def"),
    "half a definition in a stub": (".pyi", "def"),
    "a fence around": (".py", "```python\na = 1\n```"),
    "a quote too many": (".py", 'def f():\n    """Say."""\n"""\n'),
    "a return whose indent is lost": (".py", "def f(a):\n    b = a\nreturn b\n"),
    "the same beside a finally": (".py", "try:\n    a = 1\nfinally:\n    pass\nreturn a\n"),
    "the same in a finally": (".py", "try:\n    a = 1\nfinally:\n    return a\n"),
    "a break outside of a loop": (".py", "break\n"),
    "an await outside of a function": (".py", "await a\n"),
    "an argument twice": (".py", "def f(a, a):\n    pass\n"),
    "brackets without end": (".py", "(" * 50_000),
    "too deep for the parser": (".py", "-" * 60_000 + "1"),
    "too deep for its tree": (".py", "a" + ".b" * 30_000),
    "JSON that is none": (".json", '{"a": }'),
    "TOML that is none": (".toml", "a = \n"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_an_error_of_syntax_is_refused_in_a_file_that_had_none_and_in_a_new_one(
    tmp_path: Path, case: str
) -> None:
    suffix, text = WRONG[case]
    for old in (OLD[suffix], ""):
        said = await judged(tmp_path, suffix, text, old)
        assert said is not None
        assert f"f{suffix} would have an error of syntax that it has not now (" in said


FINALLY = "def f(a):\n  try:\n    pass\n  except A:\n    global b\n    b = 1\n  finally:\n    b = 2\n  return a\n"
FINE: dict[str, tuple[str, str]] = {
    "another kind of file": (".md", "def (\n"),
    "one with a mark of its encoding": (".py", "\ufeffa = 2\n"),
    "a finally": (".py", FINALLY),
    "a finally in a loop": (".py", "for a in b:\n  try:\n    pass\n  finally:\n    continue\n"),
}


@pytest.mark.parametrize("case", FINE)
async def test_what_is_no_error_passes(tmp_path: Path, case: str) -> None:
    assert await judged(tmp_path, *FINE[case]) is None


async def test_a_file_that_could_not_be_parsed_before_may_stay_so(tmp_path: Path) -> None:
    assert await judged(tmp_path, ".py", "print 'hello', 'world'\n", "print 'hello'\n") is None
    assert await judged(tmp_path, ".py", "return 2\n", "return 1\n") is None


async def test_what_the_compiler_would_warn_about_is_nobody_s_business(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert await judged(tmp_path, ".py", 'pattern = "\\d"\nassert (pattern, "always true")\n') is None
    assert not seen


async def test_nothing_of_a_file_is_run(tmp_path: Path) -> None:
    assert await judged(tmp_path, ".py", f"open({str(tmp_path / 'run')!r}, 'w')\n") is None
    assert not (tmp_path / "run").exists()


UNJUDGED: dict[str, tuple[str, str]] = {
    "TOML with too many dots": (".toml", f"{'a.' * 1_000}a =\n"),
    "the same in a heading": (".toml", f"a = 1\n[{'a.' * 1_000}a\n"),
    "a long file": (".py", "a = 1\n" * 11_000 + "def\n"),
    "a long file of TOML": (".toml", "a.a.a = 1\n" * 7_000),
}


@pytest.mark.parametrize("case", UNJUDGED)
async def test_what_takes_minutes_to_parse_is_not_judged_as_the_old_or_the_new_text(tmp_path: Path, case: str) -> None:
    suffix, text = UNJUDGED[case]
    assert await judged(tmp_path, suffix, text) is None
    assert await judged(tmp_path, suffix, text, "") is None
    assert await judged(tmp_path, suffix, OLD[suffix], text) is None


NESTED = "".join(f"{' ' * i}try: pass\n{' ' * i}finally:\n" for i in range(19)) + (" " * 19 + "x = 1\n") * 1_500
RETURNS = "def f():\n try:\n" + "  if a: return\n" * 1_500 + " finally:\n" + "  x = 1\n" * 4_000


@pytest.mark.parametrize("text", [NESTED, RETURNS], ids=["finally in finally", "returns before a finally"])
async def test_what_a_compiler_makes_gigabytes_of_is_judged_at_once(tmp_path: Path, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("subagent_local._files.syntax.compile", checked_compile, raising=False)
        assert await judged(tmp_path, ".py", text) is None
        assert "an error of syntax" in (await judged(tmp_path, ".py", f"{text}return\n") or "")


def checked_compile(source: str | ast.Module, *args: Any, **kwargs: Any) -> object:
    """The compiler of Python, which is given nothing that it would copy."""
    tree = ast.parse(source) if isinstance(source, str) else source
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Try) and node.finalbody]
    return cast("object", compile(source, *args, **kwargs))


async def test_a_stop_does_not_wait_for_a_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, go = threading.Event(), threading.Event()

    def slow(text: str) -> None:
        there.set()
        go.wait(20)

    monkeypatch.setattr(syntax, "_PARSERS", {".toml": slow})
    try:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(judged, tmp_path, ".toml", "a = 2\n")
                assert await anyio.to_thread.run_sync(there.wait, 15)
                tasks.cancel_scope.cancel()
        assert not go.is_set()
    finally:
        go.set()
