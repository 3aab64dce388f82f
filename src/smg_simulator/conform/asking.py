"""Sends the probes to a server, one after the other, and has the answers judged (edge).

Above: cli. Below: probes, answers, report. An answer that does not come in time is a breach, and so is
a connection that breaks.
"""

from collections.abc import Iterator, Sequence

import httpx

from smg_simulator.conform.answers import HttpAnswer, answer_faults, is_refusal
from smg_simulator.conform.probes import APIS, BROKEN, Probe, probes
from smg_simulator.conform.report import ConformReport, Finding

__all__ = ["look_at"]

_NOT_SERVED = frozenset({404, 405, 501})
_VERSION = {"anthropic-version": "2023-06-01"}


def look_at(url: str, model: str, *, apis: Sequence[str] = (), key: str = "", timeout: float) -> ConformReport:
    """Look at the server at `url`. Without `apis`, those it has: where broken JSON is answered by 404, 405 or 501, there is none.
    `key` is sent as a bearer token; `timeout` is in seconds, for each answer. Raises httpx.HTTPError where nobody listens."""
    findings: list[Finding] = []
    absent: list[str] = []
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    with httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=timeout) as client:
        for api in apis or APIS:
            if apis or _has(client, api, model):
                findings += _findings(client, api, model)
            else:
                absent.append(api)
    return ConformReport(url, model, findings, absent)


def _has(client: httpx.Client, api: str, model: str) -> bool:
    broken = next(probe for probe in probes(api, model) if probe.name == BROKEN)
    return _ask(client, broken).status not in _NOT_SERVED


def _findings(client: httpx.Client, api: str, model: str) -> Iterator[Finding]:
    for probe in probes(api, model):
        try:
            answer = _ask(client, probe)
        except httpx.HTTPError as error:
            faults = [f"the answer broke off: {error or type(error).__name__}"]
            yield Finding(api, probe.name, probe.streamed, "breach", tuple(faults))
            continue
        faults = answer_faults(probe, answer)
        refused = probe.wants != "refusal" and is_refusal(answer)
        outcome = "breach" if faults else "refused" if refused else "ok"
        yield Finding(api, probe.name, probe.streamed, outcome, tuple(faults))


def _ask(client: httpx.Client, probe: Probe) -> HttpAnswer:
    answer = client.post(probe.path, content=probe.body, headers=_VERSION if probe.api == "messages" else None)
    return HttpAnswer(
        answer.status_code, answer.headers.get("content-type", "").partition(";")[0].strip(), answer.content
    )
