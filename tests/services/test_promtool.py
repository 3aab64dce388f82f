"""promtool, which Prometheus brings, on what is made of the table of metrics: the alert rules and the text of a scrape."""

import subprocess
from pathlib import Path

import pytest

from smg_core.hooks import AttemptEnded, ExchangeEnded, RequestFinished
from smg_core.observability.metrics.exposition import PROMETHEUS, Exposition
from smg_core.observability.metrics.recording import MetricsRecorder
from smg_core.observability.metrics.series import SeriesTable
from smg_core.observability.metrics.smg_names import SMG_METRICS
from smg_core.observability.metrics.table import METRICS

pytestmark = pytest.mark.services

RULES = Path(__file__).parents[2] / "deploy" / "prometheus-alerts.yml"
DONE = RequestFinished("r", "chat", "m", "ok", 200, 10, 5, 2, 1.5, first_seconds=0.1, attempts=1, stream=True)
MOMENTS = (
    DONE,
    AttemptEnded("r", "w", 1, "ok", 5, (), 0.1, 1.5, 0.0),
    ExchangeEnded("p", "GET", "/", 200, 1, 0.1, "ok"),
)


def test_the_alert_rules_are_valid() -> None:
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True)


@pytest.mark.parametrize("metrics", [METRICS, SMG_METRICS], ids=["own", "smg"])
def test_the_text_of_a_scrape_is_valid_and_named_as_prometheus_asks(metrics: tuple) -> None:
    table = SeriesTable(metrics, memoryview(bytearray(SeriesTable.size(256, 1))), series=256)
    recorder = MetricsRecorder(table, lambda: 0.0)
    for moment in MOMENTS:
        recorder.report(moment)
    recorder.flush()
    text = b"".join(Exposition(table).pieces(PROMETHEUS))

    said = subprocess.run(["promtool", "check", "metrics"], input=text, check=False, capture_output=True)
    assert (said.returncode, said.stdout + said.stderr) == (0, b"")
