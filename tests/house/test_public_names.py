"""The public names of a package are the sorted `__all__` of its `__init__`."""

from __future__ import annotations

import importlib

import pytest

PACKAGES = (
    "subagent_process",
    "subagent_workspace",
    "subagents",
    "subagent_claude_code",
    "subagent_codex",
    "subagent_local",
    "subagent_testing",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_sorted_and_complete(package: str) -> None:
    module = importlib.import_module(package)
    names: list[str] = list(module.__all__)
    assert names == sorted(set(names))
    assert all(getattr(module, name) is not None for name in names)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_says_what_it_is(package: str) -> None:
    module = importlib.import_module(package)
    silent = [
        name
        for name in module.__all__
        if (callable(thing := getattr(module, name)) and getattr(thing, "__module__", "").startswith("subagent"))
        and not thing.__doc__
    ]
    assert silent == []
