"""Whether gateways know of each other, and how they reach each other.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

from typing import Literal

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["MeshConfig"]


@attrs.frozen
class MeshConfig:
    """The mesh: several gateways that act as one."""

    kind: Literal["off", "valkey", "gossip", "local"] = option(
        "off",
        "How gateways know of each other: by a Valkey, by gossip between them, or as processes of one machine; "
        "off: each is alone.",
    )
    name: str | None = option(
        None, "This gateway's name in the mesh, which should outlive a restart; null: the host's name and a number."
    )
    cluster: str = bound("smg", "The name of the mesh: gateways with another one do not hear each other.")
    url: str | None = option(
        None, "The Valkey or Redis over which gateways know of each other, for kind valkey; null: limits.store."
    )
    folder: str | None = option(None, "The folder of the sockets, for kind local; only its owner may enter it.")
    bind: str = option("127.0.0.1:7946", "Where this gateway listens for the others, for kind gossip.")
    advertise: str | None = option(
        None, "HOST:PORT at which the others reach this gateway, for kind gossip; null: its own address."
    )
    seeds: tuple[str, ...] = option(
        (),
        "HOST:PORT of gateways to begin with, for kind gossip; a name may stand for all of them, such as that of a "
        "headless service.",
    )
    keys: tuple[str, ...] = option(
        (),
        "Keys of the mesh, 32 bytes in base64; the first one is used, and what any of them has sealed is taken. Gossip "
        "beyond this machine needs one.",
        secret=True,
    )
    partition: Literal["majority", "strict"] = option(
        "majority",
        "What limits allow on the smaller side of a split: its share, while the larger side has all (majority), or while "
        "that has its share too (strict).",
    )
    guard: float = bound(
        0.05,
        "The part of a limit that all gateways together may admit beyond it between two words, in requests and tokens.",
        at_least=0.0,
        at_most=1.0,
    )
    period_s: float = bound(
        0.1, "Seconds between two looks at what others are to be told of.", at_least=0.01, at_most=60
    )
    beat_s: float = bound(
        1.0, "Seconds between two words of a gateway of which nothing has changed.", at_least=0.05, at_most=3600
    )
    sync_s: float = bound(
        5.0, "Seconds between two comparisons of all that is known with one other gateway.", at_least=0.1, at_most=3600
    )
    suspect_s: float = bound(
        1.5,
        "Seconds without a word after which a gateway is suspected, for kinds valkey and local.",
        at_least=0.1,
        at_most=3600,
    )
    dead_s: float = bound(
        4.0,
        "Seconds without a word after which a gateway is gone, for kinds valkey and local.",
        at_least=0.2,
        at_most=3600,
    )
    remember_s: float = bound(
        3600.0,
        "Seconds for which a gateway that went without a word still counts as one of the whole.",
        at_least=1,
        at_most=7 * 86_400,
    )
    join_s: float = bound(
        2.0, "Seconds that a gateway waits for what the others know, before it takes requests.", at_least=0, at_most=60
    )
    bytes_s: int = bound(MIB, "Bytes that a gateway may tell the others in a second.", at_least=16_384, at_most=1 << 34)
    entries: int = bound(
        65_536, "Most entries that are known of all gateways; of one at most a quarter.", at_least=64, at_most=1 << 24
    )
    kept_bytes: int = bound(16 * MIB, "Most bytes of what is known of all gateways.", at_least=65_536, at_most=1 << 34)
    members: int = bound(1024, "Most gateways that are known.", at_least=2, at_most=8192)
