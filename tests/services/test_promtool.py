"""promtool, which Prometheus brings, on what is made of the table of metrics: the alert rules and the text of a scrape."""

import json
import subprocess
from pathlib import Path

import pytest

from smg_core.hooks import AttemptEnded, ExchangeEnded, RequestFinished
from smg_core.observability.metrics.dashboard import ALERTS
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


FLEETS: dict[str, tuple[dict[str, str], set[str]]] = {
    "all is well": (
        {
            'smg_discovery_workers{state="ready"}': "2x20",
            'smg_router_requests_total{model="m",api="chat",outcome="ok"}': "0+60x20",
            'smg_router_requests_total{model="m",api="chat",outcome="InvalidRequest"}': "0+60x20",
        },
        set(),
    ),
    "there is no worker": (
        {
            'smg_discovery_workers{state="ready"}': "0x20",
            'smg_router_requests_total{model="m",api="chat",outcome="NoWorker"}': "0+1x20",
            'smg_http_requests_total{method="GET",route="/health",status="200"}': "0+60x20",
        },
        {"SmgNoWorkerReady", "SmgServerErrors"},
    ),
    "streams break after their first byte": (
        {
            'smg_discovery_workers{state="ready"}': "2x20",
            'smg_router_requests_total{model="m",api="chat",outcome="WorkerGone"}': "0+6x20",
            'smg_router_requests_total{model="m",api="chat",outcome="ok"}': "0+60x20",
            'smg_http_requests_total{method="POST",route="/v1/chat/completions",status="200"}': "0+66x20",
        },
        {"SmgServerErrors"},
    ),
}


@pytest.mark.parametrize(("series", "fired"), FLEETS.values(), ids=FLEETS)
def test_an_operator_is_called_when_it_matters(tmp_path: Path, series: dict[str, str], fired: set[str]) -> None:
    watched = ("SmgNoWorkerReady", "SmgServerErrors")
    asked = {
        "rule_files": [str(RULES)],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": [
                    {
                        "eval_time": "15m",
                        "alertname": name,
                        "exp_alerts": [told(name)] if name in fired else [],
                    }
                    for name in watched
                ],
            }
        ],
    }
    file = tmp_path / "test.yml"
    file.write_text(json.dumps(asked))

    subprocess.run(["promtool", "test", "rules", str(file)], check=True)


def told(name: str) -> dict[str, dict[str, str]]:
    """What Prometheus makes of an alert that fires."""
    (alert,) = [each for each in ALERTS if each.name == name]
    return {"exp_labels": {"severity": alert.severity}, "exp_annotations": {"summary": alert.summary}}


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
