"""What the gateway tells of itself.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

from typing import Literal

import attrs

from smg_core.settings import option

__all__ = ["ObservabilityConfig"]


@attrs.frozen
class ObservabilityConfig:
    """What the gateway tells of itself."""

    log_level: Literal["debug", "info", "warning", "error"] = option(
        "info", "Least severity that is logged.", flag="--log-level"
    )
    log_format: Literal["text", "json"] = option("text", "Log lines for people or for machines.", flag="--log-format")
    request_id_header: str = option("x-request-id", "Header that carries a request's id, in and out.")
    request_id_characters: int = option(
        128, "Longest id that a client may give its request; a longer one is not taken.", at_least=1, at_most=8192
    )
    repeat_s: float = option(
        60.0,
        "Seconds for which the same failure is only counted in the log after it was written.",
        at_least=0,
        at_most=86400,
    )
    repeats: int = option(1024, "Failures that are remembered for that.", at_least=1, at_most=1 << 20)
    explain: bool = option(
        False,
        "Answer a request's x-smg-explain header with what was done for it: worker, policy, tokens, times. For trusted clients.",
    )
    explain_characters: int = option(
        2048, "Longest header that such an answer has, in characters.", at_least=256, at_most=65536
    )
