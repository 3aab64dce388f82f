"""The fields of a request's query, of which no more are taken than any API has.

Each costs the event loop a microsecond before anything is known of the caller, also where there is no route. Pure. Above:
`http.exchange`, which refuses more, and `server.http_protocol`.
"""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from smg_core.errors import InvalidRequest

__all__ = ["MOST_FIELDS", "check_query", "query_fields"]

MOST_FIELDS = 1000


def check_query(query: bytes) -> None:
    """Raise InvalidRequest for a query with more fields than are taken, empty ones too."""
    if query.count(b"&") >= MOST_FIELDS:
        raise InvalidRequest(f"The query of the request has more than {MOST_FIELDS} fields.")


def query_fields(query: bytes) -> Mapping[str, tuple[str, ...]]:
    """The values of each name in the query, in order; a name without a value has an empty one. Of a query that has more fields
    than are taken, the first."""
    found: dict[str, list[str]] = {}
    taken = b"&".join(query.split(b"&", MOST_FIELDS)[:MOST_FIELDS])
    for name, value in parse_qsl(taken.decode("latin-1"), keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return {name: tuple(values) for name, values in found.items()}
