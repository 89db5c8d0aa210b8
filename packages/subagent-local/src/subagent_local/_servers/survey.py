"""What is said of servers before any work: the probe, and the models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from subagent_local._asking.faults import ChatFailed
from subagent_local._servers.discovery import find_servers
from subagent_local._servers.looking import NobodyThere
from subagent_local.errors import ServerUnusable
from subagents import FailureKind, Model, Probe, StartError

if TYPE_CHECKING:
    from subagent_local.options import LocalOptions

_FIXES: Final[Mapping[FailureKind, str]] = {
    "network": "start the model server, or set url to the address of one that runs",
    "auth": "set api_key_env to the variable that holds the key of the server",
    "model": "set model to one that the server has",
    "overload": "wait until the server has loaded its model",
    "timeout": "look after the server: it takes connections and does not answer",
}
_OTHERWISE: Final = "set url to the address of a model server"


async def probe_server(options: LocalOptions) -> Probe:
    """Whether there is a server, and which model of it would be used."""
    try:
        found = await find_servers(options)
        seen, model = found.choose(options.named_model)
    except (ChatFailed, StartError) as error:
        failure = error.failure
        known = failure.kind != "network" or isinstance(error, NobodyThere)
        fix = _FIXES.get(failure.kind, _OTHERWISE) if known else ""  # else the reason says what to do
        return Probe(False, path=options.url, detail=failure.message, fix=fix)
    return Probe(True, path=seen.url, detail=f"{model.name} will be used{model.told}; found: {found.told()}")


async def list_models(options: LocalOptions) -> Sequence[Model]:
    """The models of the server, or of all that were found.

    Raises:
        ServerUnusable: there is none.
    """
    try:
        found = await find_servers(options)
        found.require()
    except (ChatFailed, StartError) as error:
        raise ServerUnusable(error.failure.message) from None
    try:
        chosen = found.choose(options.named_model)
    except ChatFailed:
        chosen = None
    return [
        Model(
            model.name,
            model.title,
            context=model.context or model.most,
            size=model.size,
            present=True,
            default=chosen == (seen, model),
        )
        for seen in found.servers
        for model in seen.models
    ]
