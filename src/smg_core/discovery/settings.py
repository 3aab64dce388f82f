"""Where workers are found beside those that the settings name, and how often the sources are asked.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

from typing import Literal

import attrs

from smg_core.settings import option

__all__ = ["DiscoveryConfig"]


@attrs.frozen
class DiscoveryConfig:
    """Workers that come and go by themselves: in the file of workers, in DNS, in Kubernetes."""

    drain_s: float = option(
        300.0,
        "Seconds that a worker which its source names no more may take to finish its requests; what is left then goes on "
        "elsewhere.",
        at_least=0,
        at_most=86400,
    )
    look_s: float = option(
        1.0,
        "Seconds between two looks at whether the workers are those that the sources name.",
        at_least=0.05,
        at_most=3600,
    )
    most: int = option(
        1024, "Most workers that one source may name; one that names more is not believed.", at_least=1, at_most=1 << 20
    )
    file_interval_s: float = option(
        1.0,
        "Seconds between two looks at the file of workers; 0 reads it at the start alone.",
        at_least=0,
        at_most=3600,
    )
    dns: tuple[str, ...] = option(
        (),
        "Name in DNS whose records are engines: grpc://NAME:PORT for its addresses, grpc+srv://NAME for its SRV records, with "
        "?role=, model=, dialect= where wanted; may be repeated.",
        flag="--discover-dns",
    )
    dns_servers: tuple[str, ...] = option(
        (), "DNS server to ask in place of the system's, ADDRESS or ADDRESS:PORT; may be repeated."
    )
    dns_families: Literal["both", "ipv4", "ipv6"] = option("both", "Which addresses of a name count.")
    dns_least_s: float = option(
        1.0,
        "Least seconds between two questions for a name, however short its records hold.",
        at_least=0.05,
        at_most=3600,
    )
    dns_most_s: float = option(
        300.0,
        "Most seconds between two questions for a name, however long its records hold.",
        at_least=0.05,
        at_most=86400,
    )
    dns_retry_s: float = option(
        5.0, "Seconds until a name is asked for again that got no answer.", at_least=0.05, at_most=3600
    )
    dns_timeout_s: float = option(5.0, "Seconds that DNS servers may take to answer.", at_least=0.05, at_most=600)
    file_bytes: int = option(1 << 20, "Largest file of workers, in bytes.", at_least=1, at_most=1 << 30)
