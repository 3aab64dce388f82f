"""Which API's error envelope answers a request that no API's handler answers.

An unknown path, a wrong method, an unreadable head: the client's SDK must be able to read these errors too. The path decides;
where several APIs share a path, or none has it, the headers and the query do. Pure. Above: server.app and server.http_protocol.
Below: the envelopes.
"""

from collections.abc import Container, Mapping

from smg_core.protocols.base import ErrorEncoder
from smg_core.protocols.errors import anthropic_error, cohere_error, gemini_error, openai_error

__all__ = ["envelope_of", "takes_key_in_query", "unknown_google_method"]

_PREFIXES: Mapping[str, ErrorEncoder] = {
    "/v1/messages": anthropic_error,
    "/v1alpha": gemini_error,
    "/v1beta": gemini_error,
    "/v1beta1": gemini_error,
    "/v1/interactions": gemini_error,
    "/v1/projects": gemini_error,
    "/v1/publishers": gemini_error,
    "/v1/batches": openai_error,
    "/v1/chat": openai_error,
    "/v1/completions": openai_error,
    "/v1/conversations": openai_error,
    "/v1/embed": cohere_error,
    "/v2": cohere_error,
    "/v1/embeddings": openai_error,
    "/v1/realtime": openai_error,
    "/v1/responses": openai_error,
}
"""The paths, and all below them, that belong to one API."""
_VERBS = (":generateContent", ":streamGenerateContent", ":countTokens", ":embedContent", ":batchEmbedContents")
_MODELS = ("/v1beta/models/", "/v1alpha/models/")
_VERTEX = ("/v1/projects/", "/v1/publishers/", "/v1beta1/projects/", "/v1beta1/publishers/")
_MODELS_OF_ALL = "/v1/models"
_NO_HEADERS: Mapping[str, str] = {}


def envelope_of(path: str, headers: Mapping[str, str], query: Container[str] = ()) -> ErrorEncoder:
    """The envelope for errors at `path`. `headers` have lower-cased names; `query` knows the names in the query."""
    prefix = "/".join(path.split("/", 3)[:3])
    owner = _PREFIXES.get("/".join(path.split("/", 2)[:2])) or _PREFIXES.get(prefix)
    if owner is not None:
        return owner
    if prefix == "/v1/models" and path.endswith(_VERBS):
        return gemini_error
    if "anthropic-version" in headers:
        return anthropic_error
    if "x-goog-api-key" in headers or "key" in query:
        return gemini_error
    return openai_error


def takes_key_in_query(path: str) -> bool:
    """Whether clients of Google's API may send their key as `?key=` to this path: those of that API, and the models, which it
    shares with others."""
    return path.startswith(_MODELS_OF_ALL) or envelope_of(path, _NO_HEADERS) is gemini_error


def unknown_google_method(method: str, path: str) -> str:
    """The method of Google's API that a POST at `path` names behind the last colon (`/v1beta/models/m:embedContent`); ""
    where it names none. Called for a request that no route takes."""
    below, _, verb = path.rpartition(":")
    published = below.startswith(_VERTEX) and "/models/" in below
    named = method == "POST" and (published or below.startswith(_MODELS)) and "/" not in verb
    return verb if named else ""
