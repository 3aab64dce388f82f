"""Makes the client of an engine that speaks HTTP (edge). Above: fleet.connect. Below: dialects, transport."""

from collections.abc import Sequence

from smg_core.engines.base import Engine
from smg_core.engines.connections.target import Tls
from smg_core.engines.http.address import HttpAddress
from smg_core.engines.http.client import HttpClient
from smg_core.engines.kinds.grpc import AUTO, UnknownDialect
from smg_core.engines.kinds.http import CHAT_DIALECTS, HTTP_DIALECTS, takes_extras
from smg_core.engines.openai.engine import OpenAiEngine
from smg_core.engines.settings import EnginesConfig
from smg_core.engines.token_ids.client import EngineClient
from smg_core.engines.token_ids.http_transport import HttpTransport

__all__ = ["check_http_dialect", "open_engine"]


def check_http_dialect(name: str) -> None:
    """Raise UnknownDialect where no HTTP server speaks the dialect that a worker names."""
    known = (AUTO, *CHAT_DIALECTS, *HTTP_DIALECTS)
    if name not in known:
        raise UnknownDialect(f"no dialect {name!r} of an HTTP server; there are {', '.join(known)}")


def open_engine(
    dialect: str,
    url: str,
    *,
    model: str,
    headers: Sequence[tuple[str, str]],
    tls: Tls | None,
    limits: EnginesConfig,
    connect_timeout: float,
) -> Engine:
    """A client of the engine at `url`: one that takes token ids where the dialect is of that kind, else one that speaks Chat
    Completions. `model` is what the operator calls its model, "" where he does not: of a server of several it is the one of that
    name. It connects when it is first asked."""
    codec = HTTP_DIALECTS.get(dialect)
    if codec is None:
        return OpenAiEngine(
            url,
            preferred=model,
            extras=takes_extras(dialect, HttpAddress.parse(url).host),
            headers=headers,
            tls=tls,
            limits=limits,
            connect_timeout=connect_timeout,
        )
    http = HttpClient(url, headers=headers, tls=tls, limits=limits, connect_timeout=connect_timeout)
    return EngineClient(codec(), HttpTransport(http), limits)
