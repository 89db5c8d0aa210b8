"""Fixtures that every area shares."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """What must hold on both event loops is run on both."""
    return request.param
