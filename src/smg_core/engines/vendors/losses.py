"""The parts of a request that a provider does not get, or gets otherwise: said in the answer's head, never dropped in silence.

Pure. Above: the formats, which note what they leave out. Below: errors.
"""

from smg_core.errors import UnsupportedParameter

__all__ = ["Losses", "not_for"]


class Losses:
    """Collects the losses of one request: each concept's name with what is done in its place, once."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def note(self, concept: str, what: str) -> None:
        """`concept` is lost, or changed as `what` says: both are words of ours, which a header can have."""
        self.found.setdefault(concept, what)


def not_for(param: str, provider: str, why: str = "its API has no way to say it") -> UnsupportedParameter:
    """The error for what a provider cannot be asked; `param` is its path in a `GenerationRequest`."""
    return UnsupportedParameter(
        f"'{param}' cannot be honoured by this model's provider, {provider}: {why}.", param=param
    )
