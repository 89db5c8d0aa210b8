"""One real task of Codex on the real service."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e_kit import do_a_file_task, needs

from subagent_codex import Codex


@pytest.mark.long
@needs("OPENAI_API_KEY")
def test_a_real_file_task_is_done_and_told(tmp_path: Path) -> None:
    do_a_file_task(Codex(api_key_env="OPENAI_API_KEY", sandbox="workspace-write"), tmp_path)
