"""The errors of Bedrock: of an answer whose status is none of success, and inside a stream.

Decides what each of the service's words means. Pure. Above: converse, invoke, answer. Below: the errors of providers.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from smg_core.engines.http.answer import HttpReply
from smg_core.engines.vendors.bedrock.event_stream import EventMessage
from smg_core.engines.vendors.refusals import ProviderRefusal, RefusalClass, error_of, waited
from smg_core.errors import SmgError

__all__ = ["error_in_stream", "error_of_reply"]

_MEANINGS: Mapping[str, RefusalClass] = {
    "accessdenied": "credentials",
    "expiredtoken": "credentials",
    "incompletesignature": "credentials",
    "invalidclienttokenid": "credentials",
    "invalidsignature": "credentials",
    "missingauthenticationtoken": "credentials",
    "unrecognizedclient": "credentials",
    "internalserver": "failed",
    "internalfailure": "failed",
    "modelerror": "failed",
    "modelstreamerror": "failed",
    "modelnotready": "overloaded",
    "modeltimeout": "late",
    "resourcenotfound": "no_model",
    "servicequotaexceeded": "unfunded",
    "serviceunavailable": "overloaded",
    "throttling": "limited",
    "toomanyrequests": "limited",
    "validation": "rejected",
}
_STATUSES: Mapping[RefusalClass, int] = {
    "credentials": 403,
    "overloaded": 503,
    "late": 408,
    "limited": 429,
    "rejected": 400,
    "no_model": 404,
    "unfunded": 400,
}
_NO_MODEL = ("on-demand throughput isn", "provided model identifier is invalid", "reached the end of its life")
"""Sentences of a validation that are about the model and not about the request."""
_CLOCK = ("Signature expired", "Signature not yet current", "RequestTimeTooSkewed")


class _ErrorMessage(Struct):
    message: str | None = None
    Message: str | None = None
    originalMessage: str | None = None  # noqa: N815


def error_of_reply(reply: HttpReply) -> SmgError:
    """The error of a whole answer."""
    word = reply.headers.get("x-amzn-errortype", "").partition(":")[0].rpartition("#")[2]
    text = _text(reply.body)
    error = error_of(ProviderRefusal(reply.status, text, _meaning(word, text), waited(reply.headers), word))
    if any(each in text for each in _CLOCK):
        error.detail = f"{error.detail}; the clock of this machine is off"
    return error


def error_in_stream(message: EventMessage) -> SmgError:
    """The error of a message of a stream that is an exception or an error."""
    word = message.text(":exception-type") or message.text(":error-code")
    text = _text(message.payload) or message.text(":error-message")
    meant = _meaning(word, text) or "failed"
    return error_of(ProviderRefusal(_STATUSES.get(meant, 500), text, meant, None, word))


def _meaning(word: str, text: str) -> RefusalClass | None:
    """What a word of the service means, however it ends; None where it says nothing."""
    name = word.lower().removesuffix("exception").removesuffix("error")
    found = _MEANINGS.get(name) or _MEANINGS.get(f"{name}error")
    if found == "rejected" and any(each in text for each in _NO_MODEL):
        return "no_model"
    return found


def _text(body: bytes) -> str:
    try:
        fields = msgspec.json.decode(body, type=_ErrorMessage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode("utf-8", "replace")
    parts = [each for each in (fields.message or fields.Message, fields.originalMessage) if each]
    return ": ".join(parts)
