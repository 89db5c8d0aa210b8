"""Every kind of request that the server can send, through a whole run: each is answered, once, in its own shape."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from subagent_codex import Codex
from subagent_codex._methods import ASKED
from subagent_testing import FakeCodex
from subagents import Choice, Permission, PermissionRequest

pytestmark = pytest.mark.anyio


def yes(_: PermissionRequest) -> Choice:
    return Choice("allow_once")


@pytest.mark.parametrize("permission", ["reject", "allow", yes])
async def test_each_request_is_answered_once_in_its_own_shape(permission: Permission, tmp_path: Path) -> None:
    methods = [*(ASKED.keys() - {"currentTime/read"}), "brandNew/thing"]  # that one is experimental: no fake asks it
    script = {"turn": [*({"ask": method} for method in methods), {"message": "done"}]}
    with FakeCodex(script) as fake, anyio.fail_after(60):
        codex = Codex(executable=fake.executable, base_url="http://127.0.0.1:9/v1", max_refusals=50)
        async with codex.start("x", cwd=tmp_path, permission=permission) as run:
            result = await run.closed()
    assert (result.stop_reason, result.output) == ("completed", "done")
    assert [verdict.method for verdict in fake.verdicts] == methods
    errors = {verdict.method: verdict.answer["error"]["code"] for verdict in fake.verdicts if "error" in verdict.answer}
    assert errors == {
        "account/chatgptAuthTokens/refresh": -32000,
        "attestation/generate": -32000,
        "brandNew/thing": -32601,
    }
    assert [(verdict.method, verdict.wrong) for verdict in fake.verdicts if verdict.wrong] == []
