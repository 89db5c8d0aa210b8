"""The pytest plug-in.  It loads in every pytest run of whoever installed this, so it imports nothing until it is used.

Fixtures:

- `family`: a `Family`, closed after the test.
- `leak_check`: the test fails when descriptors, threads, child processes or temporary entries are left after it.
- `provider_promise`: a test that asks for it runs once for every promise and event loop; call it with a `Subject`:

      def test_my_engine(provider_promise):
          provider_promise(Subject(make=MyEngine, task="say hi", slow_task="count to a million"))

  A promise that cannot be shown with what the subject has is skipped, and says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from subagent_testing import Check, Family, Subject


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `provider_promise` once for each."""
    if "provider_promise" in metafunc.fixturenames:
        from subagent_testing.conformance import provider_checks

        metafunc.parametrize("provider_promise", provider_checks(), ids=lambda check: check.id, indirect=True)


@pytest.fixture
def provider_promise(request: pytest.FixtureRequest) -> Callable[[Subject], None]:
    """One promise on one event loop, to be called with the subject."""
    from subagent_testing.errors import NotApplicable

    check: Check = request.param

    def keep(subject: Subject) -> None:
        try:
            check(subject)
        except NotApplicable as exc:
            pytest.skip(str(exc))

    return keep


@pytest.fixture
def family() -> Iterator[Family]:
    """A process family that has yet to be started; whoever lives after the test ends with it."""
    from subagent_testing.family import Family

    family = Family()
    yield family
    family.close()


@pytest.fixture
def leak_check() -> Iterator[None]:
    """Fail the test when anything is left after it; its temporary folder is its own meanwhile."""
    from subagent_testing.leaks import Snapshot, private_temp, warm_up

    warm_up()
    with private_temp() as folder:
        before = Snapshot.take(folder)
        yield
        if left := before.left(folder):
            pytest.fail(f"left behind: {'; '.join(left)}", pytrace=False)
