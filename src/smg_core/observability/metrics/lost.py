"""The metrics of what a gateway loses of its own account: a part of the table.

Pure. Above: `table`. Below: `metric`, hooks.
"""

from smg_core.hooks import LedgerDropped, SettlementsDropped, TracesDropped
from smg_core.limit_moments import BudgetLow
from smg_core.observability.metrics.metric import Metric, from_fields

__all__ = ["LOST"]

LOST = (
    Metric(
        "smg_process_traces_dropped",
        "counter",
        "Recorded requests whose spans did not reach the collector.",
        "process",
        TracesDropped,
        ("reason",),
        labels_of=lambda dropped: (dropped.why,),
        amount=from_fields("requests"),
    ),
    Metric(
        "smg_process_budgets_low",
        "counter",
        "Budgets of which a share of limits.warn_at was spent, by the line of their rule.",
        "process",
        BudgetLow,
        ("rule",),
        labels_of=lambda low: (low.rule,),
    ),
    Metric(
        "smg_process_ledger_dropped",
        "counter",
        "Requests that are in no account of the ledger, since its store failed for too long.",
        "process",
        LedgerDropped,
        amount=from_fields("requests"),
    ),
    Metric(
        "smg_process_limits_dropped",
        "counter",
        "Requests whose use the limits do not count, since their store was away for too long.",
        "process",
        SettlementsDropped,
        amount=from_fields("requests"),
    ),
)
