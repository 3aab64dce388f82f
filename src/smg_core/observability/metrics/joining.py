"""Metrics of how workers and models come and go, and of the sources that name workers: a part of the table.

Pure. Above: `table`. Below: `metric`, hooks.
"""

from smg_core.fleet_moments import SourceAnswered, SourceChanged, SourceSampled
from smg_core.hooks import JoinEnded, ProcessSampled
from smg_core.observability.metrics.metric import DURATIONS, Metric, Readings, from_fields

__all__ = ["DISCOVERY"]

_STATES = ("joining", "ready", "unreachable", "draining")


def _states(sampled: ProcessSampled) -> Readings:
    states = [each.state for each in sampled.workers]
    return tuple([((state,), states.count(state)) for state in _STATES])


DISCOVERY = (
    Metric(
        "smg_discovery_joins",
        "counter",
        "Attempts of workers to join, by how they ended.",
        "discovery",
        JoinEnded,
        ("outcome",),
        labels_of=lambda joined: (joined.outcome,),
    ),
    Metric(
        "smg_discovery_join_duration_seconds",
        "histogram",
        "Time of an attempt to join.",
        "discovery",
        JoinEnded,
        (),
        "seconds",
        DURATIONS,
        amount=from_fields("seconds"),
    ),
    Metric(
        "smg_discovery_workers",
        "gauge",
        "Workers by state, as the process sees it that has most in it.",
        "discovery",
        ProcessSampled,
        ("state",),
        merge="max",
        any_number=_states,
    ),
    Metric(
        "smg_discovery_models",
        "gauge",
        "Names of models that every process serves.",
        "discovery",
        ProcessSampled,
        merge="min",
        amount=from_fields("models"),
    ),
    Metric(
        "smg_discovery_answers",
        "counter",
        "Answers of sources of workers: ok, or failed.",
        "discovery",
        SourceAnswered,
        ("source", "outcome"),
        labels_of=lambda answered: (answered.source, answered.outcome),
    ),
    Metric(
        "smg_discovery_changes",
        "counter",
        "Workers that were changed since their source says so.",
        "discovery",
        SourceChanged,
        ("source", "change"),
        labels_of=lambda changed: (changed.source, changed.change),
    ),
    Metric(
        "smg_discovery_source_age_seconds",
        "gauge",
        "Time since a source of workers last answered, in the process where that is longest.",
        "discovery",
        SourceSampled,
        ("source",),
        "seconds",
        merge="max",
        labels_of=lambda sampled: (sampled.source,),
        amount=from_fields("age"),
    ),
    Metric(
        "smg_discovery_source_workers",
        "gauge",
        "Workers that a source named last.",
        "discovery",
        SourceSampled,
        ("source",),
        merge="max",
        labels_of=lambda sampled: (sampled.source,),
        amount=from_fields("workers"),
    ),
)
