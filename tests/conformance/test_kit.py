"""The kit against the seam as it is and the scripted providers: every promise is kept, on both event loops."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from subagent_testing import Check, NotApplicable, Subject, seam_checks, seam_subject


def test_scripted_providers_keep_the_promises_of_every_provider(provider_promise: Callable[[Subject], None]) -> None:
    provider_promise(seam_subject())


@pytest.mark.parametrize("check", seam_checks(), ids=lambda check: check.id)
def test_the_seam_keeps_its_promises(check: Check) -> None:
    try:
        check(seam_subject())
    except NotApplicable as exc:
        pytest.skip(str(exc))
