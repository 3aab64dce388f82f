"""Errors caused by an outside provider, each with what clients and the pipeline make of it.

The provider's faults are not the client's: a key that it refuses is the gateway's, and a bound that it has reached is another
provider's chance. Pure. Above: refusals, the decoders of answers. Below: errors.
"""

from smg_core.errors import InvalidRequest, NotFound, QuotaExceeded, RateLimited, WorkerError

__all__ = [
    "ContentFiltered",
    "ProviderFailed",
    "ProviderLacksModel",
    "ProviderLimited",
    "ProviderRefused",
    "ProviderUnfunded",
]


class ContentFiltered(InvalidRequest):
    """The provider's filter of contents has refused the prompt."""

    openai_code = "content_filter"


class ProviderLimited(RateLimited):
    """The provider takes no more requests or tokens for now; another one may."""

    another_worker_may_do = True


class ProviderUnfunded(QuotaExceeded):
    """The gateway's quota or money at the provider is used up: waiting does not help, another provider may."""

    another_worker_may_do = True


class ProviderRefused(WorkerError):
    """The provider refuses the gateway's credentials, or does not permit it the call."""

    another_worker_may_do = True


class ProviderLacksModel(NotFound):
    """The provider does not know the model, or has it no more; another one may have it."""

    openai_code = "model_not_found"
    another_worker_may_do = True


class ProviderFailed(WorkerError):
    """The provider failed while it worked on the request, or broke its answer off."""

    another_worker_may_do = True
