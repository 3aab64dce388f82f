"""Says what is wrong with limits and queues in a configuration; loads what reads them only where there are any."""

import sys
from collections.abc import Iterator

from smg_core.queueing.settings import QueueConfig
from smg_core.settings import ConfigError
from smg_core.wire.settings import LimitsConfig

__all__ = ["limit_problems", "queue_problems"]


def limit_problems(limits: LimitsConfig, processes: int) -> Iterator[str]:
    """Every problem, each beginning with its setting's path."""
    if not limits.rules:
        return
    from zoneinfo import ZoneInfo

    from smg_core.limits.rules import RuleRefused, read_rules
    from smg_core.limits.teams import read_teams

    if processes != 1 and sys.platform == "win32":
        yield "limits.rules: they are counted in one process on Windows; server.processes must be 1"
    try:
        read_rules(limits.rules)
    except RuleRefused as error:
        yield f"limits.rules: {error}"
    try:
        read_teams(limits.teams)
    except RuleRefused as error:
        yield f"limits.teams: {error}"
    try:
        ZoneInfo(limits.zone)
    except (ValueError, OSError, KeyError):
        yield f"limits.zone: {limits.zone!r} is no time zone that is known here"


def queue_problems(queue: QueueConfig) -> Iterator[str]:
    """Every problem of the queues before models, each beginning with its setting's path."""
    if not queue.weights:
        return
    from smg_core.queueing.bands import weights_in

    try:
        weights_in(queue.weights)
    except ConfigError as error:
        yield str(error)
