"""The common terms of several APIs for a search of the web: where the user is, which domains, how much is wanted.

Pure. Above: the decoders of the APIs. Below: errors, msgspec.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from smg_core.errors import InvalidRequest

__all__ = ["CONTEXT_RESULTS", "ContextSize", "UserPlace", "checked_domains", "place_in_words"]

ContextSize = Literal["low", "medium", "high"]
CONTEXT_RESULTS: Mapping[ContextSize, int | None] = {"low": 3, "medium": None, "high": 10}
"""How many results each search gives for the size of context that is asked for; None: as many as the operator has set."""
_Words = Annotated[str, Meta(max_length=200)]
_DOMAINS = 100  # that one tool may name
_LONGEST = 500
_MOST_REPEATED = 80  # characters of what is none that an error repeats


class UserPlace(Struct, gc=False):
    """About where the user is."""

    type: Literal["approximate"] | None = None
    city: _Words | None = None
    region: _Words | None = None
    country: Annotated[str, Meta(pattern="^[A-Za-z]{2}$")] | None = None
    timezone: _Words | None = None


def place_in_words(place: UserPlace | None) -> str:
    """The place as a model is told it; "" where nothing is said of it."""
    if place is None:
        return ""
    names = [" ".join(each.split()) for each in (place.city, place.region, place.country) if each]
    words = ", ".join(each for each in names if each)
    if place.timezone:
        zone = " ".join(place.timezone.split())
        words = f"{words} (time zone {zone})" if words else f"the time zone {zone}"
    return words


def checked_domains(domains: Sequence[str] | None, at: str) -> tuple[str, ...]:
    """The domains, without a scheme. Raises InvalidRequest for what is none."""
    if domains is None:
        return ()
    if len(domains) > _DOMAINS:
        raise InvalidRequest(f"{at}: {len(domains)} domains, and at most {_DOMAINS} are taken", param=at)
    for order, domain in enumerate(domains):
        name, _, path = domain.partition("/")
        legal = (
            name.isascii()
            and all(each and each.replace("-", "x").isalnum() for each in name.split("."))
            and "." in name
        )
        legal = (
            legal and path.count("*") <= 1 and len(domain) <= _LONGEST and not any(each.isspace() for each in domain)
        )
        if "://" in domain or not legal:
            raise InvalidRequest(
                f"{at}[{order}]: '{domain[:_MOST_REPEATED]}' is no domain, such as example.com or example.com/blog"
                ", without a scheme",
                param=f"{at}[{order}]",
            )
    return tuple(domains)
