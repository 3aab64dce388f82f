"""The requests that `smg-gateway conform` sends: those of each API's row, whole and streamed, and one that is no JSON.

Pure. Above: asking, which sends them, and answers, which looks at what came. Below: the rows of the APIs.
"""

from collections.abc import Iterator

import attrs
import msgspec

from smg_core.apis import TRIALS
from smg_core.json_types import JsonObject
from smg_core.trials import ApiTrials, Wants

__all__ = ["APIS", "BROKEN", "Probe", "probes"]


@attrs.frozen
class Probe:
    """One request: `body` is sent to `path` as JSON, and `wants` says what its answer must be. `optional`: a server may
    also refuse it by name."""

    api: str
    name: str
    path: str
    body: bytes
    wants: Wants
    headers: tuple[tuple[str, str], ...] = ()
    streamed: bool = False
    optional: bool = False


APIS = tuple(TRIALS)
"""The APIs that can be looked at."""
BROKEN = "broken JSON"
"""The probe that every server which has the API refuses, whatever its models."""
_OPTIONAL = frozenset({"schema", "logprobs"})


def probes(trials: ApiTrials, model: str) -> Iterator[Probe]:
    """The probes of one API, in order."""

    def sent(name: str, path: str, body: JsonObject, wants: Wants, *, streamed: bool = False) -> Probe:
        optional = wants in _OPTIONAL or wants == "count"
        return Probe(trials.api, name, path, msgspec.json.encode(body), wants, trials.headers, streamed, optional)

    for name, wants, fields in trials.asks(model):
        for streamed in (False, True):
            path, body = trials.request(model, fields, streamed=streamed)
            yield sent(name, path, body, wants, streamed=streamed)
    path, _ = trials.request(model, {}, streamed=False)
    yield Probe(trials.api, BROKEN, path, b'{"model": ', "refusal", trials.headers)
    if trials.count:
        yield sent("count_tokens", f"{trials.path}/count_tokens", {"model": model, **trials.count}, "count")
