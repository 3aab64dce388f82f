"""The settings of containers, in which models run code. Records of settings: `config` gathers them. Below: `settings`."""

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["ContainersConfig"]


@attrs.frozen
class ContainersConfig:
    """Containers in which models run code, by the gateway's own Python in WebAssembly; see [Code](code.md)."""

    interpreter: str | None = option(
        None,
        "Folder in which `smg-gateway interpreter build` has made the interpreter; without it the gateway runs no code itself, "
        "and has no containers.",
    )
    folder: str | None = bound(
        None,
        "Folder that the files of containers lie in, which all processes of a gateway share; without it, one of the user in the "
        "system's temporary folder.",
    )
    tenant: int = bound(
        20, "Containers of a tenant at the same time; a further one gets 429.", at_least=1, at_most=100_000
    )
    running: int = option(
        16,
        "Interpreters that one process keeps running; the one that was used longest ago ends for a further one, with what its "
        "code has left in memory.",
        at_least=1,
        at_most=10_000,
    )
    memory_bytes: int = option(
        256 * MIB, "Bytes of memory that the code of a container may have.", at_least=64 * MIB, at_most=4096 * MIB - 1
    )
    file_bytes: int = bound(
        256 * MIB,
        "Bytes that the files of a container may have together; code that writes more is stopped.",
        at_least=MIB,
        at_most=1 << 40,
    )
    call_s: float = bound(
        30.0,
        "Seconds that a call of code may take; then its interpreter is ended, with what its code has left in memory.",
        at_least=0.1,
        at_most=3600,
    )
    idle_s: float = bound(
        1200.0,
        "Seconds after its last use at which a container is removed; a request may ask for fewer.",
        at_least=60,
        at_most=30 * 86400,
    )
