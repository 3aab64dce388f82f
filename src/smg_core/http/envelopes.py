"""The API whose error envelope answers a request without a handler.

An unknown path, a wrong method, an unreadable head: the client's SDK must be able to read these errors too. The path decides;
where several APIs share a path, or none has it, the headers and the query do. The rules come from the rows of the APIs. Pure.
Above: app.app and server.http_protocol. Below: the envelopes.
"""

from collections.abc import Container, Iterable, Mapping, MutableMapping
from typing import Any

import attrs

from smg_core.wire.base import ErrorEncoder
from smg_core.wire.errors import anthropic_error, gemini_error, openai_error

__all__ = ["ENVELOPES", "EnvelopeRule", "Envelopes", "envelopes_of"]

ENVELOPES = "smg.envelopes"
"""Key of the scope under which the app puts its envelopes, for whoever meets an error on the way."""
_MODELS_OF_ALL = "/v1/models"
_NO_HEADERS: Mapping[str, str] = {}


@attrs.frozen
class EnvelopeRule:
    """The paths at and below `prefix`, of one part or two, have errors in `error`. With `methods`, Google's way to name what is
    done to a model behind the last colon of a path, only those paths below that end with one of them. `metadata` is the path at
    which OAuth clients read who gives tokens for these paths, where there is one (RFC 9728). `instead` is what clients that
    ask for such a path are told where there is none, beside that."""

    prefix: str
    error: ErrorEncoder
    methods: tuple[str, ...] = ()
    metadata: str = ""
    instead: str = ""


class Envelopes:
    """The envelopes of a gateway's APIs. Paths that no rule has are of OpenAI's, unless headers or query are of another's."""

    def __init__(self, rules: Iterable[EnvelopeRule] = ()) -> None:
        found = tuple(rules)
        self._owners = {rule.prefix: rule.error for rule in found if not rule.methods}
        self._instead = {rule.prefix: rule.instead for rule in found if rule.instead}
        self._metadata = {rule.prefix: rule.metadata for rule in found if rule.metadata}
        self._methods = tuple((rule.prefix, rule.methods, rule.error) for rule in found if rule.methods)

    def of(self, path: str, headers: Mapping[str, str], query: Container[str] = ()) -> ErrorEncoder:
        """The envelope for errors at `path`. `headers` have lower-cased names; `query` knows the names in the query."""
        prefix = "/".join(path.split("/", 3)[:3])
        owner = self._owners.get("/".join(path.split("/", 2)[:2])) or self._owners.get(prefix)
        if owner is not None:
            return owner
        for below, methods, error in self._methods:
            if prefix == below and path.endswith(methods):
                return error
        if "anthropic-version" in headers:
            return anthropic_error
        if "x-goog-api-key" in headers or "key" in query:
            return gemini_error
        return openai_error

    def metadata_of(self, path: str) -> str:
        """The path at which clients read who gives tokens for `path`, "" for none."""
        return self._metadata.get("/".join(path.split("/", 2)[:2]), "")

    def instead_of(self, path: str) -> str:
        """What a client is told beside that there is no `path` here, "" for nothing."""
        return self._instead.get("/".join(path.removeprefix("/upload").split("/", 3)[:3]), "")

    def takes_key_in_query(self, path: str) -> bool:
        """Whether clients of Google's API may send their key as `?key=` to this path: those of that API, and the models, which
        it shares with others."""
        return path.startswith(_MODELS_OF_ALL) or self.of(path, _NO_HEADERS) is gemini_error

    def unknown_google_method(self, method: str, path: str) -> str:
        """The method of Google's API that a POST at `path` names behind the last colon (`/v1beta/models/m:embedContent`); ""
        where it names none. Called for a request that no route takes."""
        below, _, verb = path.rpartition(":")
        place, _, model = below.partition("/models/")
        prefix = "/".join(place.split("/", 3)[:3])
        googles = gemini_error in (
            self._owners.get(place.split("/publishers/")[0].split("/projects/")[0]),
            self._owners.get(prefix),
        )
        named = method == "POST" and googles and bool(model) and "/" not in verb
        return verb if named else ""


_NONE = Envelopes()


def envelopes_of(scope: MutableMapping[str, Any]) -> Envelopes:
    """The envelopes of the app that a scope is handled by."""
    found: Envelopes = scope.get(ENVELOPES, _NONE)
    return found
