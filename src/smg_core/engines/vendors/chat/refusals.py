"""Errors of providers of Chat Completions, in OpenAI's envelope and in the shapes of some others.

Decides what each word means. Pure. Above: format. Below: the errors of providers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from smg_core.engines.http.answer import HttpReply
from smg_core.engines.openai.chunks import ErrorWire
from smg_core.engines.vendors.refusals import ProviderRefusal, RefusalClass, error_of, waited
from smg_core.errors import SmgError

__all__ = ["chat_refusal", "error_in_chunk"]

_CODES: Mapping[str, RefusalClass] = {
    "context_length_exceeded": "too_long",
    "string_above_max_length": "too_long",
    "content_filter": "filtered",
    "content_policy_violation": "filtered",
    "insufficient_quota": "unfunded",
    "insufficient_balance": "unfunded",
    "invalid_api_key": "credentials",
    "model_not_found": "no_model",
    "model_decommissioned": "no_model",
    "DeploymentNotFound": "no_model",
    "OperationNotSupported": "no_model",
    "rate_limit_exceeded": "limited",
    "slow_down": "limited",
    "server_is_overloaded": "overloaded",
    "capacity_exceeded": "overloaded",
}


def chat_refusal(reply: HttpReply, provider: str) -> SmgError:
    """The error of an answer whose status is not 200."""
    words, text = _error_words(reply.body)
    return _error(reply.status, words, text, provider, waited(reply.headers))


def error_in_chunk(error: ErrorWire | str, provider: str) -> SmgError:
    """The error that an answer with status 200 has instead of the rest of it; some say a status in it."""
    if isinstance(error, str):
        return _error(200, [], error, provider, None)
    code = str(error.code)
    status = int(code) if code.isascii() and code.isdigit() and len(code) == 3 else 200
    words = [str(each) for each in (error.code, error.type) if each is not None]
    return _error(status, words, error.message or "", provider, None)


def _error(status: int, words: Sequence[str], text: str, provider: str, wait: float | None) -> SmgError:
    meant = next((_CODES[word] for word in words if word in _CODES), None)
    if provider == "openrouter" and status == 403:
        meant = "filtered"  # its moderation; a wrong key is 401 there
    return error_of(ProviderRefusal(status, text, meant, wait, " ".join(words)))


def _error_words(body: bytes) -> tuple[list[str], str]:
    """The words of an error, its code and its kind, and its sentence."""
    try:
        found = msgspec.json.decode(body, type=Any)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [], body.decode("utf-8", "replace")
    if isinstance(found, list) and found:
        found = found[0]
    outer = found if isinstance(found, dict) else {}
    error = outer.get("error", outer)
    if isinstance(error, str):
        return [str(outer["code"])] if "code" in outer else [], error
    if not isinstance(error, dict):
        return [], msgspec.json.encode(error).decode()
    words = [str(error[name]) for name in ("code", "type") if error.get(name) is not None]
    inner = error.get("innererror")
    if isinstance(inner, dict) and inner.get("code") == "ResponsibleAIPolicyViolation":
        words.insert(0, "content_filter")
    text = error.get("message", error.get("detail", ""))
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        text = f"{text}: {metadata['raw']}"
    return words, text if isinstance(text, str) else msgspec.json.encode(text).decode()
