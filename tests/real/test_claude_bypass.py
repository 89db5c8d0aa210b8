"""`bypassPermissions` on the real Claude Code, which root may not use: in a process of somebody else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from claude_kit import KEY, bash, names, write

from subagent_testing import ScriptedMessages, messages

pytestmark = pytest.mark.long

SOMEBODY = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]  # whose files are those of whoever runs this
PROGRAM = """
import json, sys
import subagents
from subagent_claude_code import ClaudeCode

url, key, work = sys.argv[1:]
asked = []
provider = ClaudeCode(
    permission_mode="bypassPermissions", base_url=url, api_key=key, max_retries=0, disallowed_tools=("WebFetch",)
)
result = subagents.run_sync(provider, "work", cwd=work, permission=lambda request: asked.append(request) or "reject")
print(json.dumps([result.stop_reason, result.output, result.failure and result.failure.message, len(asked)]))
"""


def test_nothing_is_asked_everything_runs_and_what_is_forbidden_stays_so(work: Path, tmp_path: Path) -> None:
    try:
        able = subprocess.run([*SOMEBODY, "true"], capture_output=True, check=False, timeout=30).returncode == 0
    except FileNotFoundError:
        able = False
    if not able:
        pytest.skip("this machine lets nobody make a user namespace with unshare")
    script = [
        [write(work / "in.txt")],
        [bash("touch sh.txt")],
        [write(tmp_path / "out.txt")],
        [messages.tool_use("WebFetch", {"url": "http://127.0.0.1:9/", "prompt": "x"})],
        "done",
    ]
    with ScriptedMessages(script) as api:
        done = subprocess.run(
            [*SOMEBODY, sys.executable, "-c", PROGRAM, api.base_url, KEY, str(work)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == ["completed", "done", None, 0], done.stderr
        told = api.requests[-1].raw.decode()
    assert names(work) == ["in.txt", "sh.txt"]
    assert (tmp_path / "out.txt").exists()
    assert "No such tool available: WebFetch" in told
