"""The guardrails of a gateway.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import attrs

from smg_core.settings import bound, option

__all__ = ["GuardrailsConfig"]


@attrs.frozen
class GuardrailsConfig:
    """Checks of prompts, of answers and of the arguments of tools."""

    file: str | None = option(
        None,
        "File (.yaml or .json) with a list of guardrails, in the order in which they are asked ([docs](guardrails.md)).",
    )
    held_chars: int = bound(
        200,
        "Characters at the end of what a model has said that are held back until more has come, so that nothing of up to this "
        "length leaves in part.",
        at_least=0,
        at_most=65_536,
    )
    piece_chars: int = bound(
        400,
        "Characters of an answer that have to come before guardrails are asked about it again.",
        at_least=1,
        at_most=1_000_000,
    )
    held_s: float = bound(
        5.0,
        "Seconds that text of a streamed answer is held back at most before it is checked and let go, even where it is short.",
        at_least=0.01,
        at_most=600,
    )
    harmless: tuple[str, ...] = option(
        ("OK", "SAFE", "BENIGN", "NEUTRAL", "NORMAL", "NON_TOXIC", "NOT_TOXIC", "LABEL_0"),
        "Classes of classifiers, without regard to case, that /v1/moderations takes for the absence of harm.",
    )
