"""What the tests of registry and configuration share: distributions that are there for one test."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MODULE = """
from pydantic import BaseModel, ConfigDict, SecretStr
import subagents
class Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    retries: int = 1
    key: str = ""
    pin: SecretStr | None = None
    roots: tuple[int, ...] = ()
class Good(subagents.Provider):
    options_type = Options
    def __init__(self, name="good", **options):
        self.name = name
        self.options = Options(**options)
    async def drive(self, task, link):
        link.finish(subagents.Result.completed("x"))
class Bare(subagents.Provider):
    def __init__(self, name):
        self.name = name
    async def drive(self, task, link): ...
not_a_class = 5
"""
"""A module with providers: `Good` has options, `Bare` has none."""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts a distribution on sys.path: its name, its entry points, the source of its module, more of its metadata."""

    def put(dist: str, points: str, source: str = MODULE, metadata: str = "") -> Path:
        root = tmp_path / dist
        info = root / f"{dist.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.0\n{metadata}")
        (info / "entry_points.txt").write_text(f"[subagents.providers]\n{points}\n")
        (root / f"{dist.replace('-', '_')}.py").write_text(source)
        monkeypatch.syspath_prepend(root)  # pyright: ignore[reportUnknownMemberType]
        sys.modules.pop(dist.replace("-", "_"), None)
        return info

    return put
