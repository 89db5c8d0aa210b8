"""One real task on the real service.  It costs a little money, so that it has to be asked for."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

import subagents
from subagent_codex import Codex

NEEDED = ("SUBAGENTS_E2E", "OPENAI_API_KEY")
MISSING = [name for name in NEEDED if not os.environ.get(name)]


@pytest.mark.long
@pytest.mark.skipif(bool(MISSING), reason=f"set {' and '.join(MISSING)} to run it: it asks the real service, for money")
def test_a_real_file_task_is_done_and_told(tmp_path: Path) -> None:
    async def task() -> subagents.Result:
        codex = Codex(api_key_env="OPENAI_API_KEY", sandbox="workspace-write")
        with anyio.fail_after(600):
            return await subagents.run(codex, "Write the word done, in lower case, to the file done.txt.", cwd=tmp_path)

    result = anyio.run(task)
    assert result.ok, result.failure
    assert (tmp_path / "done.txt").read_text().strip() == "done"
    assert result.usage.output_tokens
    process = result.evidence.process
    assert process is not None
    assert (process.clean, process.home_removed) == (True, True)
