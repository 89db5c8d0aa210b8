"""What every engine is asked to do on its real service.  It costs a little money, so that it has to be asked for."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

import subagents
from subagents import Permission, Provider


def needs(*names: str) -> pytest.MarkDecorator:
    """Skips, and says what is missing, unless these variables are set, and SUBAGENTS_E2E."""
    missing = [name for name in ("SUBAGENTS_E2E", *names) if not os.environ.get(name)]
    return pytest.mark.skipif(
        bool(missing), reason=f"set {' and '.join(missing)} to run it: it asks the real service, for money"
    )


def do_a_file_task(provider: Provider, folder: Path, permission: Permission = "reject") -> None:
    """One real file task, done and told; of the engine nothing is left."""

    async def task() -> subagents.Result:
        with anyio.fail_after(600):
            return await subagents.run(
                provider,
                "Write the word done, in lower case, to the file done.txt.",
                cwd=folder,
                permission=permission,
            )

    result = anyio.run(task)
    assert result.ok, result.failure
    assert (folder / "done.txt").read_text().strip() == "done"
    assert result.usage.output_tokens
    process = result.evidence.process
    assert process is not None
    assert (process.clean, process.home_removed) == (True, True)
