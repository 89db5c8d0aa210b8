"""`subagents doctor`: what is here, what is missing, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from subagents import Config, ConfigError, Provider, visible
from subagents._cli.ending import ending
from subagents._cli.listing import ConfigFile, amount_of_models
from subagents._cli.looking import Named, look_at, named
from subagents._cli.loop import interruptible, run_loop
from subagents._cli.options import find_provider, read_config
from subagents._cli.streams import rendered
from subagents._cli.tables import as_text, table, write
from subagents._cli.view import View
from subagents._config import usual_place
from subagents._doctor import Finding
from subagents._machine import Fact, look_at_machine
from subagents._registry import KNOWN

_STYLES: Final = {"ok": "green", "ready": "green", "missing": "yellow", "not ready": "yellow", "broken": "red"}

EXIT_CODES: Final = """\b
Exit codes:
  0 at least one provider can be used
  1 none can, or the configuration file is broken
"""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object instead of tables.")] = False,
    config: ConfigFile = None,
) -> None:
    """Show what is here and what is missing: the machine, and every provider, all asked at once."""
    with ending() as end:
        end.code = run_loop(partial(_examine, *_configuration(config), as_json), end_now=True)
    raise typer.Exit(end.code)


async def _examine(found: Config | None, fact: Fact, as_json: bool) -> int:
    facts = [*await interruptible(View(), look_at_machine), fact]
    instances = named(found)

    def make(name: str) -> Provider:
        return find_provider(name, found, {})

    findings = await look_at("doctor", [one.name for one in instances], make, ("probe", "models"))
    ready = [finding.name for finding in findings if finding.state == "ready"]
    if as_json:
        rows = [_row(*pair) for pair in zip(instances, findings, strict=True)]
        text = as_text({"machine": [fact.to_dict() for fact in facts], "providers": rows, "ready": ready})
    else:
        text = _page(facts, instances, findings, ready)
    await write(text)
    return 0 if ready and facts[-1].ok else 1


def _configuration(file: str | None) -> tuple[Config | None, Fact]:
    """The file, and what is to be said about it; a broken one hides no provider that is installed."""
    try:
        found = read_config(file)
    except ConfigError as exc:
        return None, Fact("configuration", False, str(exc), "correct the file: nothing runs before that")
    if found is None:
        place = usual_place()
        return None, Fact("configuration", True, f"none; it would be {place}" if place else "none, and no home for it")
    return found, Fact("configuration", True, f"{found.path}: {', '.join(found.providers) or 'no providers'}")


def _row(instance: Named, finding: Finding) -> dict[str, Any]:
    return {
        "name": instance.name,
        "type": instance.kind,
        "distribution": instance.distribution,
        "version": instance.version,
        "file": instance.file,
        "state": finding.state,
        **{key: value for key, value in finding.to_dict().items() if key != "name"},
    }


def _page(facts: Sequence[Fact], instances: Sequence[Named], findings: Sequence[Finding], ready: Sequence[str]) -> str:
    machine = ((fact.name, _word("ok" if fact.ok else "missing"), fact.detail) for fact in facts)
    providers = (row for finding in findings for row in _finding_rows(finding))
    parts = [table(("machine", "", ""), machine)]
    if instances:
        parts.append(table(("provider", "", "engine", "models", ""), providers))
    todo = [(fact.name, fact.fix) for fact in facts if fact.fix]
    todo += [(one.name, one.probe.fix) for one in findings if one.probe is not None and one.probe.fix]
    if todo:
        parts.append("to do\n" + "".join(rendered(Text(visible(f"- {name}: {fix}")), wrap=False) for name, fix in todo))
    return "\n".join((*parts, _sum(instances, ready)))


def _finding_rows(finding: Finding) -> Iterator[tuple[object, ...]]:
    probe = finding.probe
    detail = finding.problem
    if probe is not None and not detail:
        detail = probe.detail.removesuffix(probe.fix).rstrip(" :;")
    version = probe.version if probe is not None else None
    yield finding.name, _word(finding.state), version, amount_of_models(finding), detail
    if finding.models_problem and not finding.problem:
        yield None, None, None, None, f"its models could not be listed: {finding.models_problem}"


def _sum(instances: Sequence[Named], ready: Sequence[str]) -> str:
    if not instances:
        return f"No provider is installed; get one with: {' or '.join(KNOWN.values())}\n"
    if not ready:
        return f"None of {len(instances)} can be used.\n"
    return f"{len(ready)} of {len(instances)} can be used: {', '.join(ready)}\n"


def _word(word: str) -> Text:
    return Text(word, _STYLES[word])
