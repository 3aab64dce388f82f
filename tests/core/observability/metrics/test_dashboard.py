"""The dashboard and the alert rules: every metric is shown, every rule reads metrics that there are."""

import json
import re

import pytest
from tools.metrics_pages import pages

from smg_core.observability.metrics.dashboard import ALERTS, Alert, dashboard
from smg_core.observability.metrics.smg_absent import SMG_ABSENT
from smg_core.observability.metrics.smg_names import SMG_METRICS
from smg_core.observability.metrics.table import METRICS

OWN = {"smg_metrics_dropped_total", "smg_metrics_series"}
"""What the exposition says of the metrics themselves."""
SAMPLES = {metric.sample for metric in METRICS} | {
    f"{metric.name}_{part}" for metric in METRICS if metric.kind == "histogram" for part in ("bucket", "sum", "count")
}


def read_in(expression: str) -> set[str]:
    return set(re.findall(r"\bsmg_[a-z0-9_]+", expression))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_rule_reads_metrics_and_labels_that_there_are(alert: Alert) -> None:
    by_name = {metric.name: metric for metric in METRICS}
    labels = {label for name in alert.metrics for label in by_name[name].labels}

    assert read_in(alert.expression)
    assert read_in(alert.expression) <= SAMPLES | OWN
    assert {by_name[name].name for name in alert.metrics} == {
        name for name in by_name if any(sample.startswith(name) for sample in read_in(alert.expression))
    }
    assert set(re.findall(r"\$labels\.([a-z_]+)", alert.summary)) <= labels
    assert set(re.findall(r'([a-z_]+)(?:=~|!=|=)"', alert.expression)) <= labels


def test_every_metric_has_a_panel_and_every_panel_a_place_of_its_own() -> None:
    panels = json.loads(dashboard())["panels"]
    shown = [panel for panel in panels if panel["type"] != "row"]
    queries = [target["expr"] for panel in shown for target in panel["targets"]]

    assert [panel["title"] for panel in shown] == [metric.name for metric in METRICS]
    assert set().union(*map(read_in, queries)) <= SAMPLES
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places)


def test_the_files_are_those_of_the_table() -> None:
    assert [path.name for path, text in pages().items() if path.read_text() != text] == []


def test_a_name_of_smg_is_offered_or_absent_and_a_reason_names_metrics_that_there_are() -> None:
    absent = [name for name, _ in SMG_ABSENT]
    assert len(set(absent)) == len(absent)
    assert not {metric.sample for metric in SMG_METRICS} & set(absent)
    assert not SAMPLES & set(absent)
    assert read_in(" ".join(reason for _, reason in SMG_ABSENT)) <= {metric.sample for metric in METRICS}


def test_the_page_has_every_name_of_smg_once() -> None:
    (page,) = [path for path in pages() if path.suffix == ".md"]
    _, _, shown = page.read_text().partition("<!-- SMG's names")
    names = [metric.sample for metric in SMG_METRICS] + [name for name, _ in SMG_ABSENT]
    assert [name for name in names if shown.count(f"`{name}`") != 1] == []
