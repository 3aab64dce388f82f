"""Every error that a client can get, with its HTTP status and its name in each public API.

    SmgError                        root; never raised itself
    +-- InvalidRequest         400  the request is wrong; sending it again changes nothing
    |   +-- InvalidJson             the body is not JSON, or not the JSON the API takes
    |   +-- UnsupportedParameter    a documented parameter that this model or engine cannot honour
    |   |   +-- LanguageUnknown     a model has to know which language is spoken
    |   +-- RecordingInParts        a model reads a recording of this length part by part
    |   +-- PromptTooLong           carries both numbers
    |   +-- InputTooLong            of pooled work; carries the number
    |   +-- TemplateFailed          the chat template refused the messages
    |   +-- EngineRejected          the engine called the request invalid
    |   +-- SealBroken              sealed content that cannot be opened; says why
    |   +-- GuardrailBlocked        a guardrail holds the request back, or what was answered to it
    +-- AuthenticationFailed   401
    +-- PermissionDenied       403
    +-- NotFound               404
    |   +-- ModelNotFound           no worker serves the model
    +-- MethodNotAllowed       405
    +-- RequestTimeout         408  the client sent its request too slowly
    +-- Conflict               409  the object's state does not allow this
    +-- PayloadTooLarge        413
    +-- UnsupportedMedia       415  the body's content type or encoding is not supported
    +-- FormatViolated         422  the answer breaks the format that was asked for
    +-- ToolServerFailed       424  a server of tools that the request names cannot be used
    +-- UpgradeRequired        426  for this method there is a WebSocket, and the request asks for none
    +-- HeadersTooLarge        431
    +-- RateLimited            429  may carry retry_after
    |   +-- RequestLimitReached     a limit of requests
    |   +-- TokenLimitReached       a limit of tokens
    +-- QuotaExceeded          429  the tenant's quota is used up; waiting does not help
    +-- ClientGone             499  the client closed its connection; nobody reads the answer
    +-- InternalError          500  a fault of the gateway
    |   +-- ReadingFailed           its code raised while it read an engine's output: no worker is at fault
    +-- NotImplementedHere     501  a part of the API that this gateway does not serve
    +-- WorkerError            502  something about the engine
    |   +-- WorkerGone         503  connection refused, reset or lost: another worker may do it
    |   +-- WorkerBusy         503  the engine is full: another worker may do it
    |   +-- EngineFailed       500  the engine failed while it worked on the request
    |   +-- CredentialFailed        a provider refuses the gateway's own credential
    |   +-- EngineGarbled      502  the engine broke its own protocol
    |   +-- EngineTimeout      504  no answer within the deadline
    |       +-- EngineStalled       no output for too long: another worker may do it
    +-- DeadlineExceeded       504  the time of the whole request is up; no worker is at fault
    +-- StoreFailed            503  the store of the history is unreachable, full or fails
    +-- Overloaded             503  the gateway itself is full, draining, or has no worker
        +-- NoWorker                no healthy worker for the model
        +-- Draining                this replica is shutting down
        +-- GuardrailFailed         a guardrail that has to be asked does not answer

Decides the HTTP status, the name that each public API has for the failure, and whether another worker may be tried. Not
decided here: the API's error envelope and wording (protocols), which gRPC status becomes which class (engines), when to retry
(pipeline). Messages are written for the client: they never name an internal address. Above: everything. Below: outside_words.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from smg_core.outside_words import in_log

__all__ = [
    "AuthenticationFailed",
    "ClientGone",
    "Conflict",
    "CredentialFailed",
    "DeadlineExceeded",
    "Draining",
    "EngineFailed",
    "EngineGarbled",
    "EngineRejected",
    "EngineStalled",
    "EngineTimeout",
    "FormatViolated",
    "GuardrailBlocked",
    "GuardrailFailed",
    "HeadersTooLarge",
    "InputTooLong",
    "InternalError",
    "InvalidJson",
    "InvalidRequest",
    "LanguageUnknown",
    "MethodNotAllowed",
    "ModelNotFound",
    "NoWorker",
    "NotFound",
    "NotImplementedHere",
    "Overloaded",
    "PayloadTooLarge",
    "PermissionDenied",
    "PromptTooLong",
    "QuotaExceeded",
    "RateLimited",
    "ReadingFailed",
    "RecordingInParts",
    "RequestLimitReached",
    "RequestTimeout",
    "SealBroken",
    "SmgError",
    "StoreFailed",
    "TemplateFailed",
    "TokenLimitReached",
    "ToolServerFailed",
    "UnsupportedMedia",
    "UnsupportedParameter",
    "UpgradeRequired",
    "WorkerBusy",
    "WorkerError",
    "WorkerGone",
]


class SmgError(Exception):
    """Root of the tree.

    `message` is safe to show to the client. `detail` is for the operator (addresses, engine text) and is never sent.
    `outside_text` is the part of either that came from outside, such as an engine's own words: it may repeat what a client sent,
    so that logs, and the error as text, have only the words of it that are used in faults (outside_words). `param` is the path of
    the faulty field in `request.GenerationRequest` ("messages[3].parts[1]", "sampling.top_k", "template_arguments.x"), or None;
    only errors of a decoder have the path of their API's body. A message that quotes its param writes it as '<param>', in single
    quotes, so that wire.errors can replace it by the API's path. `code` is the machine-readable code of the envelope. It
    overrides the class's when one failure has several documented codes ("previous_response_not_found", "conversation_locked",
    "unsupported_value", ...). `retry_after` is in seconds. `should_retry` tells client libraries whether to send the request
    again when they could not tell from the status (None: they can).

    Of the class: `openai_code` is Chat's code; `responses_code` is the Responses API's if it differs, and `in_stream_code` its
    code after the stream has begun, when no HTTP status can be sent any more. `anthropic_status` is the HTTP status of the
    failure in Messages if it is not `status`. `another_worker_may_do`: the pipeline may try another worker.
    """

    status: ClassVar[int] = 500
    openai_type: ClassVar[str] = "server_error"
    openai_code: ClassVar[str | None] = None
    responses_code: ClassVar[str | None] = None
    in_stream_code: ClassVar[str] = "server_error"
    anthropic_type: ClassVar[str] = "api_error"
    anthropic_status: ClassVar[int | None] = None
    gemini_status: ClassVar[str] = "INTERNAL"
    another_worker_may_do: ClassVar[bool] = False
    should_retry: bool | None = None

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        detail: str | None = None,
        outside_text: str = "",
        retry_after: float | None = None,
        should_retry: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code if code is not None else self.openai_code
        self.detail = detail
        self.outside_text = outside_text
        self.retry_after = retry_after
        if should_retry is not None:
            self.should_retry = should_retry

    def __str__(self) -> str:
        return in_log(self.whole, self.outside_text)

    @property
    def outcome(self) -> str:
        """The outcome of a request that ended with this error, in a word: its class."""
        return type(self).__name__

    @property
    def cause(self) -> str:
        """The reason, as a log may have it: the detail, or the message of an error without one."""
        return in_log(self.detail or self.message, self.outside_text)

    @property
    def whole(self) -> str:
        """The error as text with all that was said from outside: for a log that is configured to have it."""
        return f"{self.message} ({self.detail})" if self.detail else self.message


class InvalidRequest(SmgError):
    """The request is wrong; sending it again changes nothing."""

    status = 400
    openai_type = "invalid_request_error"
    openai_code = "invalid_value"
    in_stream_code = "invalid_prompt"
    anthropic_type = "invalid_request_error"
    gemini_status = "INVALID_ARGUMENT"


class InvalidJson(InvalidRequest):
    """The body is not valid JSON, or its shape is not the API's."""

    openai_code = "invalid_json"


class UnsupportedParameter(InvalidRequest):
    """A documented parameter that cannot be honoured here; refused rather than dropped."""

    openai_code = "unsupported_parameter"


class LanguageUnknown(UnsupportedParameter):
    """The model has to be told which language is spoken in a recording: it can be asked for that first."""


class RecordingInParts(InvalidRequest):
    """The recording is longer than the model reads at once, and may be sent in so many `parts`."""

    def __init__(self, message: str, parts: int, *, param: str, code: str) -> None:
        super().__init__(message, param=param, code=code)
        self.parts = parts


class PromptTooLong(InvalidRequest):
    """Prompt and requested output do not fit the model's context. All counts are tokens.

    Clients must be able to tell two cases apart: the prompt alone leaves no room for an answer (`prompt_alone`; a client may
    shorten its history), or the prompt and `requested` tokens together are too long (a client may ask for fewer). `message` is
    OpenAI's text; other APIs write their own from the same numbers.
    """

    openai_code = "context_length_exceeded"
    in_stream_code = "context_length_exceeded"

    def __init__(
        self,
        prompt_tokens: int,
        requested: int,
        context_length: int,
        *,
        param: str = "messages",
        at_least: bool = False,
    ) -> None:
        """`at_least`: the prompt was not tokenized; its number of characters shows that it has `prompt_tokens` or more."""
        least = "at least " if at_least else ""
        super().__init__(
            f"This model's maximum context length is {context_length} tokens. However, you requested {least}"
            f"{prompt_tokens + requested} tokens ({prompt_tokens} in the prompt, {requested} for the completion). "
            "Please shorten the prompt or the completion.",
            param=param,
        )
        self.prompt_tokens = prompt_tokens
        self.requested = requested
        self.context_length = context_length
        self.at_least = at_least

    @property
    def prompt_alone(self) -> bool:
        """Whether no answer of any length would fit."""
        return self.prompt_tokens >= self.context_length


class InputTooLong(InvalidRequest):
    """An input of pooled work is longer than the model's context. Counts are tokens; `at_least`: it was not tokenized, and has
    that many or more."""

    openai_code = "context_length_exceeded"

    def __init__(self, tokens: int, context_length: int, *, param: str, at_least: bool = False) -> None:
        least = "at least " if at_least else ""
        super().__init__(
            f"This model's maximum context length is {context_length} tokens, however '{param}' has {least}{tokens} tokens. "
            "Please shorten it, or ask for it to be truncated.",
            param=param,
        )


class TemplateFailed(InvalidRequest):
    """The model's chat template raised on these messages."""


class EngineRejected(InvalidRequest):
    """The engine called the request invalid (gRPC INVALID_ARGUMENT, OUT_OF_RANGE); another worker would too."""


SealFault = Literal["not_ours", "too_long", "unknown_key", "wrong_tenant", "other_family", "tampered", "edited"]
"""Why sealed content cannot be used: it is no token of this gateway, is too long, was sealed by a key that is not known here, for
another tenant or for another family of models, was changed; or it opens, and the text beside it was changed."""


class SealBroken(InvalidRequest):
    """Sealed reasoning or other sealed content in the request cannot be used; `reason` says why. Raised if the deployment
    wants that; otherwise such content is left out."""

    openai_code = "invalid_encrypted_content"

    def __init__(self, reason: SealFault, *, param: str | None = None) -> None:
        super().__init__("The encrypted content could not be verified.", param=param, detail=reason)
        self.reason = reason


class AuthenticationFailed(SmgError):
    """No credentials, or wrong ones."""

    status = 401
    openai_type = "invalid_request_error"
    openai_code = "invalid_api_key"
    anthropic_type = "authentication_error"
    gemini_status = "UNAUTHENTICATED"


class PermissionDenied(SmgError):
    """The caller is known and may not do this."""

    status = 403
    openai_type = "invalid_request_error"
    anthropic_type = "permission_error"
    gemini_status = "PERMISSION_DENIED"


class NotFound(SmgError):
    """No such route or object."""

    status = 404
    openai_type = "invalid_request_error"
    anthropic_type = "not_found_error"
    gemini_status = "NOT_FOUND"


class ModelNotFound(NotFound):
    """No worker serves a model of this name."""

    openai_code = "model_not_found"

    def __init__(self, model: str) -> None:
        super().__init__(f"The model '{model}' does not exist or you do not have access to it.", param="model")


class MethodNotAllowed(SmgError):
    """The route exists, the HTTP method does not."""

    status = 405
    openai_type = "invalid_request_error"
    anthropic_type = "invalid_request_error"
    gemini_status = "UNIMPLEMENTED"


class UpgradeRequired(SmgError):
    """The path takes this method as the handshake of a WebSocket, and the request is none: a proxy may have made it so."""

    status = 426
    openai_type = "invalid_request_error"
    anthropic_type = "invalid_request_error"
    gemini_status = "UNIMPLEMENTED"


class RequestTimeout(SmgError):
    """The client took too long to send its request."""

    status = 408
    openai_type = "invalid_request_error"
    anthropic_type = "timeout_error"
    gemini_status = "DEADLINE_EXCEEDED"


class Conflict(SmgError):
    """The object's state does not allow this: another turn runs in the conversation, the batch has ended."""

    status = 409
    openai_type = "invalid_request_error"
    in_stream_code = "invalid_prompt"
    anthropic_type = "conflict_error"
    gemini_status = "ABORTED"


class PayloadTooLarge(SmgError):
    """The body is over its limit."""

    status = 413
    openai_type = "invalid_request_error"
    anthropic_type = "request_too_large"
    gemini_status = "INVALID_ARGUMENT"


class UnsupportedMedia(SmgError):
    """The body's content type or encoding is not supported."""

    status = 415
    openai_type = "invalid_request_error"
    anthropic_type = "invalid_request_error"
    gemini_status = "INVALID_ARGUMENT"


class HeadersTooLarge(SmgError):
    """The request's head is over its limit."""

    status = 431
    openai_type = "invalid_request_error"
    anthropic_type = "invalid_request_error"
    gemini_status = "INVALID_ARGUMENT"


class RateLimited(SmgError):
    """Too many requests or tokens."""

    status = 429
    openai_type = "rate_limit_error"
    openai_code = "rate_limit_exceeded"
    in_stream_code = "rate_limit_exceeded"
    anthropic_type = "rate_limit_error"
    gemini_status = "RESOURCE_EXHAUSTED"


class RequestLimitReached(RateLimited):
    """A limit of requests is reached: of so many in a time, or of so many at once."""

    openai_type = "requests"


class TokenLimitReached(RateLimited):
    """A limit of tokens is reached."""

    openai_type = "tokens"


class QuotaExceeded(SmgError):
    """The tenant's quota is used up: unlike `RateLimited`, waiting does not help."""

    status = 429
    openai_type = "insufficient_quota"
    openai_code = "insufficient_quota"
    in_stream_code = "insufficient_quota"
    anthropic_type = "billing_error"
    anthropic_status = 402
    gemini_status = "RESOURCE_EXHAUSTED"
    should_retry = False


class ClientGone(SmgError):
    """The client closed its connection before the answer was complete."""

    status = 499
    gemini_status = "CANCELLED"

    @property
    def outcome(self) -> str:
        return "client_gone"


class InternalError(SmgError):
    """A fault of the gateway. The message has no details."""


_FRAMES = 4
"""Places of a fault that are told, from where it was raised outwards."""


class ReadingFailed(InternalError):
    """The gateway's own code raised while it read an engine's output: decoder, detokeniser, parser or encoder. It says nothing
    of the engine, and another one's answer might not be read either. `detail` names the kind of exception and the lines of code
    that it came through; its text, which may repeat an answer, is left out."""

    def __init__(self, places: str) -> None:
        super().__init__("The gateway failed on this request.", detail=places)
        self.places = places

    @classmethod
    def of(cls, fault: Exception) -> SmgError:
        """The error for whatever was raised there: one of our errors is itself."""
        return fault if isinstance(fault, SmgError) else cls.hiding(fault)

    @classmethod
    def hiding(cls, fault: BaseException) -> "ReadingFailed":
        """The error for what was raised there, one of our errors too, where it cannot be what it says that it is."""
        lines: list[str] = []
        traced = fault.__traceback__
        while traced is not None:
            code = traced.tb_frame.f_code
            path = "/".join(code.co_filename.replace("\\", "/").split("/")[-2:])
            lines.append(f"{path}:{traced.tb_lineno} in {code.co_name}")
            traced = traced.tb_next
        return cls(f"{type(fault).__name__} at {', '.join(reversed(lines[-_FRAMES:]))}")

    def read_by(self, family: str) -> None:
        """Tell the operator which family's output it was; "" is that of none, which is passed on as text."""
        self.detail = f"output of the family {family or 'none'}: {self.places}"


class NotImplementedHere(SmgError):
    """A part of the API that this gateway does not serve: no request of this kind will ever succeed."""

    status = 501
    gemini_status = "UNIMPLEMENTED"
    should_retry = False


class WorkerError(SmgError):
    """The engine is at fault, not the request."""

    status = 502


class WorkerGone(WorkerError):
    """The connection to the engine was refused, reset or lost, or is closing."""

    status = 503
    anthropic_type = "overloaded_error"
    gemini_status = "UNAVAILABLE"
    another_worker_may_do = True


class WorkerBusy(WorkerError):
    """The engine has no room for one more request. `answers_others`: it was seen to answer others while this one waited here, or
    while the one did that has waited longest, where there was no room to wait."""

    status = 503
    answers_others = False
    responses_code = "server_is_overloaded"
    in_stream_code = "server_is_overloaded"
    anthropic_type = "overloaded_error"
    anthropic_status = 529
    gemini_status = "UNAVAILABLE"
    another_worker_may_do = True


class EngineFailed(WorkerError):
    """The engine failed on this request."""

    status = 500


class CredentialFailed(WorkerError):
    """A provider refuses the gateway's own credential, or there is none to send. The client's own is not at fault; another worker
    may have a credential that is good."""

    another_worker_may_do = True


class EngineGarbled(WorkerError):
    """The engine sent something that its protocol does not allow, or found that we did: bytes were changed on the way, or the
    engine has a fault that another one need not have. What could be read before it counts."""

    another_worker_may_do = True


class FormatViolated(SmgError):
    """The answer breaks the format that was asked for, and the deployment wants that to be an error. Client libraries do not
    retry this status, since another try would cost as much again."""

    status = 422
    openai_type = "invalid_request_error"
    openai_code = "format_violated"
    gemini_status = "INVALID_ARGUMENT"


class ToolServerFailed(SmgError):
    """A server of tools that the request names cannot be reached, or has broken its protocol."""

    status = 424
    openai_type = "invalid_request_error"
    openai_code = "external_connector_error"
    anthropic_type = "api_error"
    gemini_status = "UNAVAILABLE"


class EngineTimeout(WorkerError):
    """The engine did not answer within its time limit."""

    status = 504
    anthropic_type = "timeout_error"
    gemini_status = "DEADLINE_EXCEEDED"


class EngineStalled(EngineTimeout):
    """The engine sent no output for too long; another one may be faster."""

    another_worker_may_do = True


class DeadlineExceeded(SmgError):
    """The time of the whole request is up. No worker is at fault, and another try would cost as much again."""

    status = 504
    anthropic_type = "timeout_error"
    gemini_status = "DEADLINE_EXCEEDED"
    should_retry = False


class StoreFailed(SmgError):
    """The store of the history cannot be reached ("unreachable"), has no room ("full") or fails ("failed"). The request is not at
    fault: an answer that is ready is given nevertheless, and the failure reported."""

    status = 503
    openai_code = "store_unavailable"
    gemini_status = "UNAVAILABLE"

    def __init__(
        self,
        reason: Literal["unreachable", "full", "failed"],
        detail: str,
        *,
        outside_text: str = "",
        retry_after: float | None = None,
    ) -> None:
        message = "The stored history is not available at the moment."
        super().__init__(message, detail=detail, outside_text=outside_text, retry_after=retry_after)
        self.reason = reason


class Overloaded(SmgError):
    """The gateway cannot take the request now; `retry_after` says when to come back."""

    status = 503
    openai_type = "server_error"
    responses_code: ClassVar[str | None] = "server_is_overloaded"
    in_stream_code = "server_is_overloaded"
    anthropic_type = "overloaded_error"
    anthropic_status: ClassVar[int | None] = 529
    gemini_status = "UNAVAILABLE"


class NoWorker(Overloaded):
    """No healthy worker for the model at the moment."""


class Draining(Overloaded):
    """This process is shutting down: it finishes its requests and takes no new ones."""


class GuardrailBlocked(InvalidRequest):
    """A guardrail of this gateway holds back what was asked (`place` "input"), what the model says ("output") or the arguments of
    a tool ("arguments"). An answer that ends with it has no failure: it ends as the APIs end those that a filter has cut.
    `left` are the events that may still leave."""

    openai_code = "content_filter"

    def __init__(
        self, guardrail: str, place: Literal["input", "output", "arguments"], left: Sequence[object] = ()
    ) -> None:
        what = "The request" if place == "input" else "The answer"
        super().__init__(f"{what} was held back by the guardrail '{guardrail}' of this gateway.")
        self.guardrail, self.place, self.left = guardrail, place, tuple(left)

    @property
    def ends_the_answer(self) -> bool:
        """Whether it is the end of an answer, and no refusal of the request."""
        return self.place != "input"


class GuardrailFailed(Overloaded):
    """A guardrail of this gateway that has to be asked does not answer, so that nothing passes."""

    openai_code = "guardrail_unavailable"
