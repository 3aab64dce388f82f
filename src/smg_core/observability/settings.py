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
    explain: bool = option(
        False,
        "Answer a request's x-smg-explain header with what was done for it: worker, policy, tokens, times. For trusted clients.",
    )
