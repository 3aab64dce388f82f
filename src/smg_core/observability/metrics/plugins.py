"""Metrics of plugins: what they do to exchanges, what they count themselves, and how they come and go.

Rows of `table`, which is above. The names of plugins are the operator's; those of counters are a plugin's own, of which there
are few. Pure. Below: `metric`, hooks.
"""

from operator import attrgetter

from smg_core.hooks import PluginActed, PluginChanged, PluginCounted
from smg_core.observability.metrics.metric import Metric, from_fields

__all__ = ["PLUGINS"]

PLUGINS = (
    Metric(
        "smg_plugin_actions",
        "counter",
        "Heads, bodies, answers and errors that a plugin changed or rejected, and its failures, by the hook it was called in.",
        "plugin",
        PluginActed,
        ("plugin", "hook", "outcome"),
        labels_of=attrgetter("plugin", "hook", "outcome"),
    ),
    Metric(
        "smg_plugin_counts",
        "counter",
        "What components count themselves.",
        "plugin",
        PluginCounted,
        ("plugin", "counter"),
        labels_of=attrgetter("plugin", "counter"),
        amount=from_fields("by"),
    ),
    Metric(
        "smg_plugin_changes",
        "counter",
        "Plugins loaded, replaced, removed, and refused, where what was there before stays.",
        "plugin",
        PluginChanged,
        ("plugin", "outcome"),
        labels_of=attrgetter("plugin", "outcome"),
    ),
)
