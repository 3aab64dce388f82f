"""Our errors for a provider's refusals: by its HTTP status, the word it has for it, and last its text.

A provider's text may hold ids of accounts, addresses and parts of keys. What a client is told is cleaned of them; the whole goes
into `detail`, for the operator. Pure. Above: the formats. Below: failures, errors.
"""

import re
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Literal

import attrs

from smg_core.engines.openai.answers import one_line
from smg_core.engines.vendors.failures import (
    ContentFiltered,
    ProviderFailed,
    ProviderLacksModel,
    ProviderLimited,
    ProviderRefused,
    ProviderUnfunded,
)
from smg_core.errors import EngineRejected, EngineStalled, PayloadTooLarge, PromptTooLong, SmgError, WorkerBusy

__all__ = ["ProviderRefusal", "RefusalClass", "cleaned", "error_of", "span_seconds", "waited"]

RefusalClass = Literal[
    "rejected",
    "too_long",
    "too_large",
    "filtered",
    "credentials",
    "unfunded",
    "limited",
    "overloaded",
    "late",
    "failed",
    "no_model",
]

_STATUSES: Mapping[int, RefusalClass] = {
    401: "credentials",
    402: "unfunded",
    403: "credentials",
    404: "no_model",
    408: "late",
    413: "too_large",
    424: "failed",
    429: "limited",
    498: "overloaded",
    502: "failed",
    503: "overloaded",
    504: "late",
    529: "overloaded",
}
_TOO_LONG = re.compile(
    r"prompt is too long|input is too long|maximum context length|context_length_exceeded"
    r"|input token count \(?\d+\)? exceeds|exceeds? the (?:model's )?(?:maximum )?context (?:window|limit|length)",
    re.IGNORECASE,
)
_NUMBERS = (
    re.compile(r"prompt is too long: (\d+) tokens > (\d+)", re.IGNORECASE),
    re.compile(
        r"input token count \(?(\d+)\)? exceeds the maximum number of tokens allowed \(?(\d+)\)?", re.IGNORECASE
    ),
)
_PRIVATE = (
    (re.compile(r"https?://[^\s\"'<>)\]]+", re.IGNORECASE), "<address>"),
    (re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]+"), "<account>"),
    (
        re.compile(
            r"\b(?:organization|org|proj|project|workspace|wrkspc|user|acct|req|resp|key|sk|AIza|AKIA)[-_][\w*.-]{4,}"
        ),
        "<id>",
    ),
    (re.compile(r"\bprojects?/[\w-]+"), "<project>"),
    (re.compile(r"\b(?:AIza|AKIA|ASIA)[\w-]{8,}"), "<id>"),
    (re.compile(r"\barn:[\w:/.-]+"), "<id>"),
    (re.compile(r"\b[0-9a-f]{16,}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
)
_LONGEST_QUOTE = 400  # characters of a provider's sentence that a client is told


@attrs.frozen
class ProviderRefusal:
    """What a provider has said: `status`, its own word for the class where it has one, its text, and the seconds to wait."""

    status: int
    text: str = ""
    meant: RefusalClass | None = None
    wait: float | None = None
    words: str = ""

    @property
    def kind(self) -> RefusalClass:
        """The class: by the word, else by the status; the text refines what is rejected alone."""
        found = self.meant or _STATUSES.get(self.status) or ("rejected" if 400 <= self.status < 500 else "failed")
        return "too_long" if found == "rejected" and _TOO_LONG.search(self.text) else found


def cleaned(text: str) -> str:
    """A provider's sentence without addresses, accounts and ids, as a client may be told it."""
    text = one_line(text)
    for pattern, replacement in _PRIVATE:
        text = pattern.sub(replacement, text)
    return text[:_LONGEST_QUOTE]


def error_of(refusal: ProviderRefusal) -> SmgError:
    """The error to raise for a refusal."""
    raw = one_line(": ".join(each for each in (refusal.words, refusal.text) if each))
    if refusal.wait is None and (found := _AGAIN.search(refusal.text)) is not None:
        refusal = attrs.evolve(refusal, wait=span_seconds(found[1]))
    return _MAKERS[refusal.kind](refusal, raw)


_Maker = Callable[[ProviderRefusal, str], SmgError]


def _with_own_words(kind: type[SmgError], sentence: str) -> _Maker:
    """Makes errors that tell the client nothing of the provider's text."""

    def made(refusal: ProviderRefusal, raw: str) -> SmgError:
        detail = f"HTTP status {refusal.status}: {raw}"
        return kind(sentence, detail=detail, outside_text=raw, retry_after=refusal.wait)

    return made


def _quoted(kind: type[SmgError], sentence: str) -> _Maker:
    """Makes errors that quote the provider's cleaned text, which says what is wrong with the request."""

    def made(refusal: ProviderRefusal, raw: str) -> SmgError:
        quote = cleaned(refusal.text)
        detail = f"HTTP status {refusal.status}: {raw}"
        # The two stand one behind the other in the error as text: whatever log has it, has the known words of both alone.
        return kind(
            f"{sentence}: {quote}" if quote else f"{sentence}.", detail=detail, outside_text=f"{quote} ({detail}"
        )

    return made


def _too_long(refusal: ProviderRefusal, raw: str) -> SmgError:
    for pattern in _NUMBERS:
        if (found := pattern.search(refusal.text)) is not None:
            error = PromptTooLong(int(found[1]), 0, int(found[2]))
            error.detail, error.outside_text = f"HTTP status {refusal.status}: {raw}", raw
            return error
    made = _quoted(EngineRejected, "The prompt is too long for the model")(refusal, raw)
    made.code = PromptTooLong.openai_code
    return made


_MAKERS: Mapping[RefusalClass, _Maker] = {
    "rejected": _quoted(EngineRejected, "The provider rejected the request"),
    "too_long": _too_long,
    "too_large": _with_own_words(PayloadTooLarge, "The request is larger than the provider takes."),
    "filtered": _quoted(ContentFiltered, "The provider's filter of contents refused the request"),
    "credentials": _with_own_words(ProviderRefused, "The provider refused the gateway's own credentials."),
    "unfunded": _with_own_words(ProviderUnfunded, "The gateway's quota at the provider is used up."),
    "limited": _with_own_words(ProviderLimited, "The provider takes no more requests for now."),
    "overloaded": _with_own_words(WorkerBusy, "The provider has no room for the request."),
    "late": _with_own_words(EngineStalled, "The provider did not answer in time."),
    "failed": _with_own_words(ProviderFailed, "The provider failed while it worked on the request."),
    "no_model": _with_own_words(ProviderLacksModel, "The provider does not have the model."),
}

_AGAIN = re.compile(r"try again in ((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)", re.IGNORECASE)
_TIMED = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")


def span_seconds(text: str) -> float | None:
    """A span of time as providers write it: seconds ("46"), or with units ("6m0s", "46s", "20ms"). None for anything else."""
    text = text.strip()
    if re.fullmatch(r"\d{1,9}(?:\.\d+)?", text):
        return float(text)
    found = _TIMED.fullmatch(text) if text else None
    if found is None or not any(found.groups()):
        return None
    return sum(float(part or 0) * unit for part, unit in zip(found.groups(), (3600, 60, 1, 0.001), strict=True))


def waited(headers: Mapping[str, str]) -> float | None:
    """The seconds that an answer's headers, with lower-cased names, ask to wait; None where they do not. A date is as far away as
    the answer's own date says."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (found := span_seconds(headers.get(name, ""))) is not None:
            return found * unit
    until, now = _moment(headers.get("retry-after", "")), _moment(headers.get("date", ""))
    return max(0.0, until - now) if until is not None and now is not None else None


def _moment(text: str) -> float | None:
    """A date of HTTP in seconds, None for what is none."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, IndexError):
        return None
