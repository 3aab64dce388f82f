"""The settings that hold until a gateway ends, even if its processes are replaced by others.

The supervisor has opened the listeners and made the memory that the processes share, so what these were made by stays. Pure.
Above: processes.supervisor. Below: the settings.
"""

import attrs

from smg_core.config.config import Config

__all__ = ["with_fixed"]

FIXED_SECTIONS = ("admin", "channel", "metrics")
"""Sections of which nothing changes: the admin door's listener, the channel, the layout of the metrics."""

FIXED = {
    "server": ("host", "port", "backlog", "processes", "supervised"),
    "workers": ("most",),
    "breaker": ("shared",),
    "history": ("gateway",),
    "mesh": ("kind",),
}
"""Settings of the other sections that do not change."""


def with_fixed(config: Config, before: Config) -> tuple[Config, tuple[str, ...]]:
    """The settings that new processes run by: those of `config`, where they may change, else those of `before`; and the paths of
    those that were to change and cannot."""
    fixed = {
        **{
            section: tuple(field.name for field in attrs.fields(type(getattr(config, section))))
            for section in FIXED_SECTIONS
        },
        **FIXED,
    }
    messages: list[str] = []
    sections = {}
    for section, names in fixed.items():
        old, new = getattr(before, section), getattr(config, section)
        messages += [f"{section}.{name}" for name in names if getattr(old, name) != getattr(new, name)]
        sections[section] = attrs.evolve(new, **{name: getattr(old, name) for name in names})
    secret = config.sealing.cache_secret or before.sealing.cache_secret  # that of chance stays
    return attrs.evolve(config, **sections, sealing=attrs.evolve(config.sealing, cache_secret=secret)), tuple(messages)
