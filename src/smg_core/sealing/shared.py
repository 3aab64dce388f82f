"""The sealer that all processes of a gateway have alike, also where no keys are set.

Without keys each process seals with its own: what does not open is left out of a prompt. What has to open in every process, such
as a session's id, is sealed by this one until the next start. Pure. Above: the MCP server. Below: `sealer`.
"""

from hashlib import sha256

from smg_core.sealing.sealer import Sealer
from smg_core.sealing.settings import SealingConfig

__all__ = ["shared_sealer"]


def shared_sealer(settings: SealingConfig, own: Sealer) -> Sealer:
    """`own`, where it has keys of the settings; else one by the secret that the processes of one start have in common."""
    if settings.keys or settings.keys_file or settings.cache_secret is None:
        return own
    return Sealer([sha256(b"shared sealer\0" + settings.cache_secret.encode()).digest()], most=settings.token_bytes)
