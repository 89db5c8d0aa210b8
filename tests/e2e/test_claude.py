"""One real task of Claude Code on the real service."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e_kit import do_a_file_task, needs

from subagent_claude_code import ClaudeCode


@pytest.mark.long
@needs("ANTHROPIC_API_KEY")
def test_a_real_file_task_is_done_and_told(tmp_path: Path) -> None:
    do_a_file_task(ClaudeCode(api_key_env="ANTHROPIC_API_KEY"), tmp_path, "allow")
