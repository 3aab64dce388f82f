"""The settings of middleware, and its bounds.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["MiddlewareConfig"]


@attrs.frozen
class MiddlewareConfig:
    """Plugins around requests and answers: WebAssembly components and Python (docs/plugins.md)."""

    plugins: tuple[str, ...] = option(
        (),
        "Plugin, as the path of a component (redact.wasm), MODULE:ATTRIBUTE, or the name of an installed one; may be repeated, "
        "and the order is theirs. middleware.file says more of each.",
    )
    file: str | None = option(
        None,
        "File (.yaml or .json) with a list of plugins, each with its settings; they run after those of middleware.plugins.",
    )
    follow: bool = bound(
        True, "Look whether middleware.file or a component has changed, and take the new one without a restart."
    )
    follow_s: float = bound(
        2.0, "Seconds between two looks whether middleware.file or a component has changed.", at_least=0.1, at_most=3600
    )
    most: int = bound(64, "Plugins at most.", at_least=1, at_most=1024)
    body_bytes: int = bound(
        16 * MIB, "Most bytes of a request's body after a plugin changed it.", at_least=1024, at_most=1 << 30
    )
    piece_bytes: int = bound(
        MIB, "Most bytes of one piece of an answer after a plugin changed it.", at_least=64, at_most=1 << 26
    )
    component_bytes: int = bound(
        64 * MIB, "Most bytes of the file of a component that is a plugin.", at_least=1024, at_most=1 << 30
    )
    compiled: int = bound(
        32, "Compiled components of plugins that a process keeps, by their contents.", at_least=1, at_most=1024
    )
    threads: int = bound(
        4,
        "Threads in which the calls of each component run, in a process, whichever tenants they are for.",
        at_least=1,
        at_most=256,
    )
    most_threads: int = bound(
        32,
        "Threads of each component at most, in a process: beyond middleware.threads, one for each tenant that has none.",
        at_least=1,
        at_most=1024,
    )
    header_bytes: int = bound(
        16384, "Most bytes of the headers that one change of a plugin names and sets.", at_least=64, at_most=MIB
    )
