"""Interleaved rounds of several candidates, and a table of their medians."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping


def side_by_side(
    title: str, unit: str, candidates: Mapping[str, Callable[[], float]], rounds: int = 9
) -> dict[str, float]:
    """Call each candidate once a round, in turn; print and return the median of what each returned."""
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, measure in candidates.items():
            taken[name].append(measure())
    medians = {name: statistics.median(values) for name, values in taken.items()}
    print(f"\n{title}  [{unit}, median of {rounds} (min-max)]")
    first = next(iter(medians.values()))
    for name, values in taken.items():
        print(
            f"  {name:<28} {medians[name]:>10.2f}  ({min(values):.2f}-{max(values):.2f})  x{medians[name] / first:.2f}"
        )
    return medians
