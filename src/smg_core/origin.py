"""The API that a request came through, and what that API expects of its requests. Pure. Above: request and the decoders."""

from msgspec import Struct

__all__ = ["KEEPS_BUDGET", "REMINDERS", "SEALS_DIGEST", "SEALS_INCLUDED", "TELLS_BUDGET", "WISHES_STRICT", "Origin"]


class Origin(Struct, frozen=True):
    """The API that the request came through: `version` and `betas` of Messages' headers (anthropic-version, anthropic-beta),
    `revision` of Interactions' wire format, `bounds`: the names, old or new, by which a body of Chat bounds its tokens.

    `traits` say what the API expects of its requests beyond their fields, so that no other room needs to know it by name. `seals`
    is what seals of its reasoning are for, which keeps those of one API from opening in another; "" for an API without seals.
    `calls` is how the ids of its tool calls begin, where neither the model nor another server has named them.
    """

    api: str
    version: str | None = None
    betas: frozenset[str] = frozenset()
    revision: str | None = None
    bounds: tuple[str, ...] = ()
    traits: frozenset[str] = frozenset()
    seals: str = ""
    calls: str = "call_"


KEEPS_BUDGET = "keeps_budget"
"""Trait: a budget of reasoning is a ceiling, which the gateway keeps."""

TELLS_BUDGET = "tells_budget"
"""Trait: a budget of reasoning is told to the model where its chat template has a word for it, and kept where it has none."""

WISHES_STRICT = "wishes_strict"
"""Trait: the schema of a function that says nothing of `strict` is held to where it can be."""

REMINDERS = "reminders"
"""Trait: messages of the system may stand between the turns, as reminders to the model."""

SEALS_DIGEST = "seals_digest"
"""Trait: reasoning that the client is shown is sealed as a digest of its text, not as the text."""

SEALS_INCLUDED = "seals_included"
"""Trait: reasoning is sealed only where the request includes `reasoning.encrypted_content`."""
