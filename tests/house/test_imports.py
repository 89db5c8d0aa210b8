"""An import points down, never sideways, never up (DESIGN, section 1)."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What each package may import of the others.  One that is missing here fails: a new room has to be drawn first.
MAY_SEE: dict[str, set[str]] = {
    "subagent_process": set(),
    "subagent_workspace": {"subagent_process"},
    "subagents": {"subagent_process", "subagent_workspace"},
    "subagent_claude_code": {"subagents", "subagent_process"},
    "subagent_codex": {"subagents", "subagent_process"},
    "subagent_local": {"subagents", "subagent_process", "subagent_workspace"},
    "subagent_testing": {
        "subagents",
        "subagent_process",
        "subagent_workspace",
        "subagent_claude_code",
        "subagent_codex",
        "subagent_local",
    },
}
HEAVY = {"jsonschema", "httpx", "typer", "rich", "pydantic", "trio", "xllamacpp", "codex_cli_bin", "claude_agent_sdk"}


def sources(package: str) -> list[Path]:
    found = list((ROOT / "packages" / package.replace("_", "-") / "src" / package).rglob("*.py"))
    assert found
    return found


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_every_package_is_on_the_plan() -> None:
    assert {p.name.replace("-", "_") for p in (ROOT / "packages").iterdir() if p.is_dir()} == set(MAY_SEE)


@pytest.mark.parametrize("package", MAY_SEE)
def test_imports_point_down(package: str) -> None:
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(package)
        for name in imported(path) & (set(MAY_SEE) - MAY_SEE[package] - {package})
    }
    assert not wrong


@pytest.mark.parametrize("package", MAY_SEE)
def test_third_party_imports_are_declared(package: str) -> None:
    import tomllib

    text = (ROOT / "packages" / package.replace("_", "-") / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    declared = [*project["dependencies"], *(d for ds in project.get("optional-dependencies", {}).values() for d in ds)]
    names = {d.split("[")[0].split(">")[0].split("=")[0].strip().replace("-", "_").lower() for d in declared}
    allowed = names | set(sys.stdlib_module_names) | {package}
    inner = {
        "_supervisor",  # the supervisor starts with its own folder on the path
        "referencing", "jsonschema_specifications",  # parts of jsonschema >= 4.18
        "trio",  # only ever inside a loop of trio
        "codex_cli_bin",  # the extra cli; absent is normal
    }  # fmt: skip
    used = {(path.name, name) for path in sources(package) for name in imported(path)}
    assert not {(where, name) for where, name in used if name.lower() not in allowed | inner}


def test_importing_subagents_loads_nothing_heavy() -> None:
    import subprocess

    code = f"import subagents, sys; print(*({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


def test_helpers_of_tests_have_names_of_their_own() -> None:
    """Each area puts its folder on the path: of two helpers of one name, the whole run sees one."""
    helpers = [path for path in (ROOT / "tests").glob("*/*.py") if not path.name.startswith(("test_", "conftest"))]
    names = Counter(path.name for path in helpers)
    assert [name for name, number in names.items() if number > 1] == []
