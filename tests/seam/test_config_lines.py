"""On which line of a TOML text a key stands: whatever TOML allows, and with the keys that tomllib finds."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subagents._toml_lines import KeyPath, key_lines, line_of


def paths(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    """All keys and elements of what tomllib read."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, one in cast("dict[str, object]", value).items():
            yield from paths(one, (*path, name))
    elif isinstance(value, list):
        for number, one in enumerate(cast("list[object]", value)):
            yield from paths(one, (*path, number))


ODD: dict[str, tuple[str, dict[KeyPath, int]]] = {
    "tables": ("a = 1\n\n[b]\nc = 2\n[b.d]\ne = 3", {("a",): 1, ("b",): 3, ("b", "c"): 4, ("b", "d", "e"): 6}),
    "dotted keys": ("[a]\nb . c = 1\nb.d=2\n[ a . e ]\nf = 1", {("a", "b"): 2, ("a", "b", "d"): 3, ("a", "e", "f"): 5}),
    "quoted keys": (
        '["a.b".\'c d\']\n"\\u00e9 = #" = 1\n\'\' = 2\n"]" . x = 3',
        {("a.b", "c d", "é = #"): 2, ("a.b", "c d", ""): 3, ("a.b", "c d", "]", "x"): 4},
    ),
    "inline tables": (
        "a = {b = 1, c.d = {e = [1,2]}, 'f' = {}} # {\ng = 1",
        {("a", "b"): 1, ("a", "c", "d", "e", 1): 1, ("a", "f"): 1, ("g",): 2},
    ),
    "arrays over lines": (
        "a = [\n  1, # one ]\n\n  [2,\n   3],\n  {b = 1, c = 2},\n]\nd = 1",
        {("a", 0): 2, ("a", 1): 4, ("a", 1, 1): 5, ("a", 2, "c"): 6, ("d",): 8},
    ),
    "strings over lines": (
        'a = """\n[x]\nb = 1\n\\""" """""\nc = \'\'\'\n\\\'\'\'\n'
        'd = """"q""""\ne = \'\'\'\'\'\'\nf = ""\ng = \'\\\'\nh = 1',
        {("a",): 1, ("c",): 5, ("d",): 7, ("e",): 8, ("f",): 9, ("g",): 10, ("h",): 11},
    ),
    "a quote at the end of a string": ('a = \'\'\'x\'\'\'\'\nb = """x"""""\nc = 1', {("b",): 2, ("c",): 3}),
    "a string that ends its line": ('a = """x\\\n   y"""\nb = 1', {("b",): 3}),
    "arrays of tables": (
        "[[a]]\nb = 1\n[[a]]\n[a.c]\nd = 1\n[[a.e]]\n[[a.e]]\nf = 1\n[g]\nh = 1",
        {("a", 0, "b"): 2, ("a", 1): 3, ("a", 1, "c", "d"): 5, ("a", 1, "e", 1, "f"): 8, ("g", "h"): 10},
    ),
    "a table after its parts": ("[a.b]\nc = 1\n[a]\nd = 1", {("a",): 1, ("a", "d"): 4}),
    "CRLF": ('# x\r\n[a]\r\nb = """\r\n"""\r\nc = 1 # y\r\n[d]\r\n', {("a", "b"): 3, ("a", "c"): 5, ("d",): 6}),
    "scalars": (
        "a = 1979-05-27 07:32:00Z # x\nb = [+inf, 0xf]\nc = -1e6\nd=true",
        {("a",): 1, ("b", 1): 2, ("c",): 3, ("d",): 4},
    ),
    "a comment at the end": ("a = 1#", {("a",): 1}),
    "nothing": ("", {}),
    "nothing but blanks": (" \n\t# x\n", {}),
}


@pytest.mark.parametrize("name", ODD)
def test_every_key_has_the_line_where_it_is_named_first(name: str) -> None:
    text, wanted = ODD[name]
    found = key_lines(text)
    assert {path: found.get(path) for path in wanted} == wanted
    assert set(found) == set(paths(tomllib.loads(text)))


def test_what_is_nested_too_deep_costs_only_the_keys_behind_it() -> None:
    text = f"a = 1\nb = {'[' * 3000}{']' * 3000}\n"
    assert key_lines(text)[("a",)] == 1


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (("a", "b", "int", 3), (2, ("a", "b"))),
        (("a", "missing"), (1, ("a",))),
        (("x",), (1, ())),
        ((), (1, ())),
    ],
)
def test_a_path_that_goes_on_below_the_keys_is_that_of_the_nearest(path: KeyPath, wanted: tuple[int, KeyPath]) -> None:
    assert line_of(key_lines("[a]\nb = 1"), path) == wanted


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t\"'\\#[]{}=,."), max_size=12)
LEAF = TEXT | st.integers(-9, 9) | st.booleans()
VALUE = st.recursive(LEAF, lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXT, v, max_size=3), max_leaves=8)


def toml(value: Any, newline: str) -> str:
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)} = {toml(v, '')}" for k, v in pairs) + "}"
    if isinstance(value, list):
        return f"[{newline}" + f",{newline}".join(toml(v, newline) for v in cast("list[Any]", value)) + f"{newline}]"
    if isinstance(value, str) and newline and "'''" not in value and not value.endswith("'"):
        return f"'''\n{value}'''"  # as it is, its lines too
    return json.dumps(value, ensure_ascii=False)


@given(st.dictionaries(TEXT, VALUE, max_size=4), st.sampled_from(["\n", "\n# ]\n", ""]))
def test_whatever_a_file_holds_the_keys_and_their_lines_are_right(data: dict[str, Any], newline: str) -> None:
    text, wanted = "", dict[str, int]()
    for name, value in data.items():
        wanted[name] = text.count("\n") + 1
        text += f"{json.dumps(name, ensure_ascii=False)} = {toml(value, newline)}\n"
    found = key_lines(text)
    assert set(found) == set(paths(tomllib.loads(text)))
    assert {name: found[(name,)] for name in wanted} == wanted
