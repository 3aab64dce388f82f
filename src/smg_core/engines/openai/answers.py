"""Reads what a Chat Completions server sends besides chunks: HTTP errors, errors in the stream, and the list of models.

Decides which of our errors an HTTP status and an error object become. The server's own text may hold addresses and stack
traces, so it goes into `detail`, which only the operator sees. Pure. Above: engine, events. Below: chunks, errors.
"""

from collections.abc import Mapping, Sequence

import msgspec

from smg_core.engines.openai.chunks import ErrorWire, ModelsWire, ModelWire
from smg_core.errors import EngineFailed, EngineGarbled, EngineRejected, EngineStalled, SmgError, WorkerBusy, WorkerGone

__all__ = [
    "adapters_of",
    "error_from_event",
    "error_from_http_status",
    "error_of_chat",
    "model_served",
    "one_line",
    "retry_after",
    "serves_others",
]

_MAX_TEXT = 2000  # characters of a server's text that are kept; servers send whole tracebacks
_NOT_SERVED, _SEVERAL = "The engine does not serve the model.", "The engine serves several models."
_MAX_NAMES = 10  # models of a server that an error lists

_FAILED = (EngineFailed, "The engine failed while it worked on the request.")
_REJECTED = (EngineRejected, "The engine rejected the request.")
_NOT_BY_MODEL = "The engine refuses to do this with the model."
_BUSY = (WorkerBusy, "The engine has no room for the request.")
# A proxy before the engine says that it has not reached it, or got nothing from it in the proxy's time. Another engine may do, as
# where the gateway itself finds so.
_GONE = (WorkerGone, "The engine is not available.")
_LATE = (EngineStalled, "The engine did not answer in time.")
# The client's own credentials are checked by the gateway: those that the engine refuses are the gateway's.
_TRUST = (EngineFailed, "The engine refused the gateway's own credentials.")

_STATUSES: dict[int, tuple[type[SmgError], str]] = {
    401: _TRUST,
    403: (EngineFailed, "The engine does not permit the gateway this call."),
    404: (EngineFailed, "The engine does not know the model, or has no chat API."),
    405: (EngineFailed, "The engine has no chat API at its address."),
    408: _LATE,
    429: _BUSY,
    502: _GONE,
    503: _BUSY,
    504: _LATE,
}
_NO_SUCH_CALL = frozenset({404, 405})
_OTHER_DIALECT = (
    "The worker was spoken to in Chat Completions (dialect openai); an engine that takes token ids over HTTP needs its "
    "dialect set: vllm-http, sglang-http or llamacpp-http"
)
_WORDS: dict[str, tuple[type[SmgError], str]] = {
    # `code` or `type` of an error object
    "invalid_request_error": _REJECTED,
    "BadRequestError": _REJECTED,
    "context_length_exceeded": _REJECTED,
    "rate_limit_error": _BUSY,
    "rate_limit_exceeded": _BUSY,
    "server_is_overloaded": _BUSY,
    "overloaded_error": _BUSY,
}


def error_from_http_status(status: int, body: bytes, wait: float | None = None) -> SmgError:
    """The error for an HTTP status other than 200 with (the beginning of) its body; `wait` is when to come back, in
    seconds, if the server said."""
    kind, sentence = _meaning(status)
    engine_words = one_line(_text_of(body))
    of_model = kind is EngineRejected and _blames_model(body)
    return kind(
        _NOT_BY_MODEL if of_model else sentence,
        param="model" if of_model else None,
        detail=f"HTTP status {status}{_with(engine_words)}",
        outside_text=engine_words,
        retry_after=wait if kind is WorkerBusy else None,
    )


def error_of_chat(status: int, body: bytes, wait: float | None = None) -> SmgError:
    """The same, for a request of Chat Completions. Where the server knows no such call, the log says what may be set."""
    error = error_from_http_status(status, body, wait)
    if status in _NO_SUCH_CALL:
        error.detail = f"{error.detail}. {_OTHER_DIALECT}"
    return error


def error_from_event(error: ErrorWire | str) -> SmgError:
    """The error for an error object in mid-stream."""
    if isinstance(error, str):
        engine_words = one_line(error)
        return EngineFailed(_FAILED[1], detail=f"error in the stream{_with(engine_words)}", outside_text=engine_words)
    code = error.code
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
        code = int(code)
    if isinstance(code, int) and 400 <= code < 600:
        kind, sentence = _meaning(code)
    else:
        kind, sentence = _WORDS.get(str(code), _WORDS.get(error.type or "", _FAILED))
    kinds = " ".join(str(each) for each in (error.type, error.code) if each is not None)
    engine_words = ": ".join(one_line(each) for each in (kinds, error.message) if each)
    return kind(sentence, detail=f"error in the stream{_with(engine_words)}", outside_text=engine_words)


def _meaning(status: int) -> tuple[type[SmgError], str]:
    known = _STATUSES.get(status)
    if known is not None:
        return known
    return _REJECTED if 400 <= status < 500 else _FAILED


def _with(text: str) -> str:
    return f": {text}" if text else ""


def one_line(text: str) -> str:
    """`text` on one line, cut to what an operator can use."""
    return " ".join(text[:_MAX_TEXT].split())


def _blames_model(body: bytes) -> bool:
    """Whether an error's body names the model as what is wrong: the one field that is the same in every API."""
    try:
        found = msgspec.json.decode(body, type=dict[str, object]).get("error")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("param") == "model"


def _text_of(body: bytes) -> str:
    """The message of an error's body: of OpenAI's envelope, of the shapes that servers have without one, or its text."""
    try:
        found: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode("utf-8", "replace")
    for name in ("error", "detail", "message"):
        if isinstance(found, dict) and name in found:
            found = found[name]
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until the server wants to be asked again, of headers with lower-cased names. Dates are not read: servers of
    models do not send them."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if value.isascii() and value.isdigit() and len(value) < 10:
            return int(value) * unit
    return None


def model_served(body: bytes, wanted: str = "", *, preferred: Sequence[str] = ()) -> ModelWire:
    """The model to ask for, of the answer to `GET /v1/models`: the one `wanted`; without such a wish the first of those
    `preferred` that is there, else the only one that is no adapter; of several names of one model (vLLM's
    `--served-model-name`), which have one root, the first. Raises `EngineGarbled` where the body is no such list and
    `EngineFailed` where it does not hold that model (`serves_others`)."""
    models = _listed(body)
    names = ", ".join(model.id for model in models[:_MAX_NAMES]) or "none"
    name = wanted or next((each for each in preferred if any(model.id == each for model in models)), "")
    fitting = [model for model in models if (model.id == name if name else model.parent is None)]
    if not fitting:
        raise EngineFailed(_NOT_SERVED, detail=f"wanted {wanted!r}; it serves {names}")
    roots = {model.root for model in fitting}
    if len(fitting) > 1 and not name and (len(roots) > 1 or None in roots):
        raise EngineFailed(_SEVERAL, detail=f"name the one to use; it serves {names}")
    return fitting[0]


def serves_others(error: SmgError) -> bool:
    """Whether the engine has listed its models and the one to ask for is not there, as `model_served` found."""
    return isinstance(error, EngineFailed) and error.message in (_NOT_SERVED, _SEVERAL)


def adapters_of(body: bytes, model: str) -> tuple[str, ...]:
    """The names of the adapters of `model`, of the answer to `GET /v1/models`. Raises `EngineGarbled`."""
    return tuple(each.id for each in _listed(body) if each.id and each.parent == model)


def _listed(body: bytes) -> list[ModelWire]:
    try:
        return msgspec.json.decode(body, type=ModelsWire).data or []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineGarbled(
            "The engine's list of models cannot be read.", detail=str(error), outside_text=str(error)
        ) from None
