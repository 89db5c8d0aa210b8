"""Which server is meant: the one whose address was given, or with `auto` one on the usual ports of this machine.

All ports are asked at once, on 127.0.0.1 alone, with requests that change nothing. No key is sent: whoever listens on a
port need not be the server that one thinks of. What was found is told, whether it is used or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from subagent_local._asking.faults import ChatFailed, fault
from subagent_local._servers.dialects import DIALECTS
from subagent_local._servers.looking import NobodyThere, Seen, look
from subagent_local._servers.served import Served
from subagents import Failure
from subagents.backend.fields import read_key

if TYPE_CHECKING:
    from subagent_local.options import LocalOptions

PORTS: Final = tuple(dict.fromkeys(dialect.port for dialect in DIALECTS if dialect.port is not None))
_KNOCK: Final = 3.0  # seconds: these servers are here, or they are not


@dataclass(frozen=True, slots=True)
class Search:
    """What was found.

    Attributes:
        servers: in the order of their ports.
        others: for each other port on which something answers, why it is no server that can be used.
        key: that was sent, and goes on being sent.
    """

    servers: tuple[Seen, ...]
    others: dict[str, Failure]
    key: str | None = field(default=None, repr=False)

    def told(self) -> str:
        """All of it, in words."""
        servers = [f"{seen.dialect.title} at {seen.url} with {_amount(seen.models)}" for seen in self.servers]
        others = [f"at {url}: {failure.message}" for url, failure in self.others.items()]
        return "; ".join([*servers, *others]) or "nothing"

    def require(self) -> None:
        """Refuse to go on without any server.

        Raises:
            ChatFailed: there is none.
        """
        if not self.servers:
            ports = ", ".join(map(str, PORTS))
            raise fault(
                "network",
                f"no model server was found on the ports {ports} of this machine (there is {self.told()}): start one, "
                "give its address as url, or leave url out for the engine of our own",
            )

    def choose(self, wanted: str | None) -> tuple[Seen, Served]:
        """The one server that has the model; where none is wanted, the one that has a model loaded, or the only one.

        Raises:
            ChatFailed: there is none, or more than one.
        """
        self.require()
        servers = [seen for seen in self.servers if seen.models] or list(self.servers)
        if len(servers) == 1:
            return servers[0], servers[0].choose(wanted)
        having = [seen for seen in servers if any(_suits(model, wanted) for model in seen.models)]
        if len(having) == 1:
            return having[0], having[0].choose(wanted)
        which = f"the model {wanted!r}" if wanted is not None else "a model loaded"
        number = "more than one of them has" if having else "none of them has"
        listed = "; ".join(f"{seen.url}: {', '.join(model.name for model in seen.models)}" for seen in self.servers)
        raise fault("model", f"there are {self.told()}, and {number} {which}: give one as url, or model ({listed})")


def _suits(model: Served, wanted: str | None) -> bool:
    return model.unasked and model.loaded is not False if wanted is None else model.is_called(wanted)


async def find_servers(options: LocalOptions) -> Search:
    """The server that the options name, or all that are on the usual ports.

    Raises:
        ChatFailed: nothing that can be used answers at the address that they name.
        StartError: the variable that should hold the key does not.
    """
    assert options.url is not None
    if options.url == "auto":
        return await search()
    key = read_key(options.api_key, options.api_key_env)
    return Search((await look(options.url, key, options.dialect),), {}, key)


async def search() -> Search:
    """Look at every usual port."""
    servers: dict[int, Seen] = {}
    others: dict[int, Failure] = {}

    async def knock(port: int) -> None:
        try:
            servers[port] = await look(_url(port), None, within=_KNOCK)
        except NobodyThere:
            pass
        except ChatFailed as error:
            others[port] = error.failure

    async with anyio.create_task_group() as tasks:
        for port in PORTS:
            tasks.start_soon(knock, port)
    return Search(
        tuple(servers[port] for port in PORTS if port in servers),
        {_url(port): others[port] for port in PORTS if port in others},
    )


def _amount(models: Sequence[Served]) -> str:
    return f"{len(models)} model{'s' * (len(models) != 1)}"


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"
