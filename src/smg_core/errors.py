"""Every error a caller can meet, each knowing how it is answered on the wire.

    SmgError                        root; never raised itself
    +-- InvalidRequest         400  the request is wrong; sending it again changes nothing
    |   +-- InvalidJson             the body is not JSON, or not the JSON the API takes
    |   +-- UnsupportedParameter    a documented parameter that this model or engine cannot honour
    |   +-- PromptTooLong           carries both numbers
    |   +-- TemplateFailed          the chat template refused the messages
    |   +-- EngineRejected          the engine called the request invalid
    +-- AuthenticationFailed   401
    +-- PermissionDenied       403
    +-- NotFound               404
    |   +-- ModelNotFound           no worker serves the model
    +-- MethodNotAllowed       405
    +-- RequestTimeout         408  the client sent its request too slowly
    +-- PayloadTooLarge        413
    +-- HeadersTooLarge        431
    +-- RateLimited            429  may carry retry_after
    +-- ClientGone             499  the client hung up; nobody reads the answer
    +-- InternalError          500  a fault of the gateway
    +-- WorkerError            502  something about the engine
    |   +-- WorkerGone         503  connection refused, reset or lost: another worker may do it
    |   +-- WorkerBusy         503  the engine is full: another worker may do it
    |   +-- EngineFailed       500  the engine failed while it worked on the request
    |   +-- EngineGarbled      502  the engine broke its own protocol
    |   +-- EngineTimeout      504  no answer within the deadline
    +-- Overloaded             503  the gateway itself is full, draining, or has no worker
        +-- NoWorker                no healthy worker for the model
        +-- Draining                this replica is shutting down

What is decided here: the HTTP status, the name each public API has for the failure, and whether another worker may be
tried before the first byte has gone out. What is not: how an envelope looks (protocols), which gRPC status becomes which
class (engines), when to retry (pipeline). Messages are written for the client: they never name an internal address.
"""

from typing import ClassVar

__all__ = [
    "AuthenticationFailed",
    "ClientGone",
    "Draining",
    "EngineFailed",
    "EngineGarbled",
    "EngineRejected",
    "EngineTimeout",
    "HeadersTooLarge",
    "InternalError",
    "InvalidJson",
    "InvalidRequest",
    "MethodNotAllowed",
    "ModelNotFound",
    "NoWorker",
    "NotFound",
    "Overloaded",
    "PayloadTooLarge",
    "PermissionDenied",
    "PromptTooLong",
    "RateLimited",
    "RequestTimeout",
    "SmgError",
    "TemplateFailed",
    "UnsupportedParameter",
    "WorkerBusy",
    "WorkerError",
    "WorkerGone",
]


class SmgError(Exception):
    """Root of the tree.

    `message` is safe to show to the client. `detail` is for the operator (addresses, engine text) and is never sent.
    `param` is the path of the field at fault in `GenerationRequest` ("messages[3].parts[1]", "sampling.top_k"), or None; only
    a decoder's own errors have their API's path. A message that quotes its param does so as '<param>', in single quotes:
    whoever writes the error for the client (protocols.errors) puts the API's path in both places. `code` overrides the
    class's OpenAI code when one failure has several documented codes. `retry_after` is in seconds.
    """

    status: ClassVar[int] = 500
    openai_type: ClassVar[str] = "server_error"
    openai_code: ClassVar[str | None] = None
    anthropic_type: ClassVar[str] = "api_error"
    gemini_status: ClassVar[str] = "INTERNAL"
    another_worker_may_do: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        detail: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code if code is not None else self.openai_code
        self.detail = detail
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.message} ({self.detail})" if self.detail else self.message


class InvalidRequest(SmgError):
    """The request is wrong as it stands."""

    status = 400
    openai_type = "invalid_request_error"
    anthropic_type = "invalid_request_error"
    gemini_status = "INVALID_ARGUMENT"


class InvalidJson(InvalidRequest):
    """The body is not valid JSON, or its shape is not the API's."""


class UnsupportedParameter(InvalidRequest):
    """A documented parameter that cannot be honoured here; refused rather than dropped."""

    openai_code = "unsupported_parameter"


class PromptTooLong(InvalidRequest):
    """Prompt and requested output do not fit the model's context. All counts are tokens."""

    openai_code = "context_length_exceeded"

    def __init__(self, prompt_tokens: int, requested: int, context_length: int, *, param: str = "messages") -> None:
        super().__init__(
            f"This model's maximum context length is {context_length} tokens. However, you requested "
            f"{prompt_tokens + requested} tokens ({prompt_tokens} in the prompt, {requested} for the completion). "
            "Please shorten the prompt or the completion.",
            param=param,
        )
        self.prompt_tokens = prompt_tokens
        self.requested = requested
        self.context_length = context_length


class TemplateFailed(InvalidRequest):
    """The model's chat template raised on these messages."""


class EngineRejected(InvalidRequest):
    """The engine said INVALID_ARGUMENT, OUT_OF_RANGE or the like; another worker would say the same."""


class AuthenticationFailed(SmgError):
    """No credentials, or wrong ones."""

    status = 401
    openai_type = "invalid_request_error"
    openai_code = "invalid_api_key"
    anthropic_type = "authentication_error"
    gemini_status = "UNAUTHENTICATED"


class PermissionDenied(SmgError):
    """Known caller, not allowed."""

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
        self.model = model


class MethodNotAllowed(SmgError):
    """The route exists, the HTTP method does not."""

    status = 405
    openai_type = "invalid_request_error"
    anthropic_type = "invalid_request_error"
    gemini_status = "INVALID_ARGUMENT"


class RequestTimeout(SmgError):
    """The client took too long to send its request."""

    status = 408
    openai_type = "invalid_request_error"
    anthropic_type = "invalid_request_error"
    gemini_status = "DEADLINE_EXCEEDED"


class PayloadTooLarge(SmgError):
    """The body is over its limit."""

    status = 413
    openai_type = "invalid_request_error"
    anthropic_type = "request_too_large"
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
    anthropic_type = "rate_limit_error"
    gemini_status = "RESOURCE_EXHAUSTED"


class ClientGone(SmgError):
    """The client closed its connection before the answer was complete."""

    status = 499


class InternalError(SmgError):
    """A fault of the gateway; the message tells the client nothing about it."""


class WorkerError(SmgError):
    """Something about the engine rather than the request."""

    status = 502


class WorkerGone(WorkerError):
    """Refused, reset, lost or closing: the world broke the connection."""

    status = 503
    anthropic_type = "overloaded_error"
    gemini_status = "UNAVAILABLE"
    another_worker_may_do = True


class WorkerBusy(WorkerError):
    """The engine has no room for one more request."""

    status = 503
    anthropic_type = "overloaded_error"
    gemini_status = "UNAVAILABLE"
    another_worker_may_do = True


class EngineFailed(WorkerError):
    """The engine failed on this request."""

    status = 500


class EngineGarbled(WorkerError):
    """The engine sent what its protocol does not allow."""


class EngineTimeout(WorkerError):
    """The deadline passed."""

    status = 504
    gemini_status = "DEADLINE_EXCEEDED"


class Overloaded(SmgError):
    """The gateway cannot take the request now; `retry_after` says when to come back."""

    status = 503
    openai_type = "server_error"
    anthropic_type = "overloaded_error"
    gemini_status = "UNAVAILABLE"


class NoWorker(Overloaded):
    """No healthy worker for the model at the moment."""


class Draining(Overloaded):
    """This replica is finishing what it has and takes nothing new."""
