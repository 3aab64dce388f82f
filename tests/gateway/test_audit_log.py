"""The audit log of the admin door: what was done and by whom, before it is done, and nothing that is secret."""

import json
from pathlib import Path

import attrs
import pytest
from tests.gateway.conftest import eventually
from tests.gateway.test_admin import ADMIN, KEYS, USER, bearer, opened

from smg_core.admin.auditing import audit_fault
from smg_core.cli import main
from smg_core.config.config import Config
from smg_core.observability.settings import AuditConfig
from smg_core.processes.serve import serve

pytestmark = pytest.mark.anyio

WITH_KEYS = attrs.evolve(KEYS, virtual_keys=True)


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.full
async def test_an_action_has_a_line_before_it_begins_and_one_when_it_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    async with opened(auth=WITH_KEYS, audit=AuditConfig(file=str(path))) as door:
        headers = bearer(ADMIN) | {"x-request-id": "mine"}
        made = await door.http.post("/admin/keys", json={"tenant": "research"}, headers=headers)
        await eventually(lambda: len(lines_of(path)) == 3)
        wrong = await door.http.post("/admin/keys", json={"nothing": "canary"}, headers=headers)
        await door.http.get("/admin/keys", headers=headers)
        await eventually(lambda: len(lines_of(path)) == 5)
        refused = [await door.http.post("/admin/keys", json={}, headers=bearer(USER)) for _ in range(3)]
        await eventually(lambda: len(lines_of(path)) == 6)

    first, asked, done, again, failed, stranger = lines_of(path)
    key = made.json()
    assert (made.status_code, wrong.status_code, {each.status_code for each in refused}) == (201, 400, {403})
    assert first["event"] == "chain_started"
    assert asked.items() >= {"event": "asked", "path": "/admin/keys", "tenant": "ops", "principal": "root"}.items()
    assert done.items() >= {"event": "done", "status": 201, "subject": key["prefix"], "peer": "127.0.0.1"}.items()
    assert done["client_request_id"] == "mine"
    assert asked["request_id"]
    assert asked["request_id"] == done["request_id"]
    assert again["request_id"] == failed["request_id"] != asked["request_id"]
    assert (again["event"], failed["event"], failed["outcome"]) == ("asked", "failed", "InvalidRequest")
    assert stranger.items() >= {"event": "refused", "outcome": "PermissionDenied", "tenant": "acme"}.items()
    text = path.read_text()
    assert not any(secret in text for secret in (key["key"], ADMIN, USER, "canary", "research"))
    assert main(["audit-log", "verify", str(path)]) == 0


async def test_an_action_whose_line_cannot_be_written_is_not_done(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.log"
    async with opened(auth=WITH_KEYS, audit=AuditConfig(file=str(path))) as door:
        path.mkdir()
        refused = await door.http.post("/admin/keys", json={"tenant": "research"}, headers=bearer(ADMIN))
        listed = await door.http.get("/admin/keys", headers=bearer(ADMIN))

    assert refused.status_code == 503
    assert "nothing is done" in refused.json()["error"]["message"]
    assert str(path) not in refused.text
    assert listed.json()["data"] == []
    assert "the audit log cannot be written" in caplog.text


def test_a_gateway_whose_audit_log_cannot_be_written_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "diary").write_text("dear diary\n")
    nowhere, diary = (AuditConfig(file=str(tmp_path / name)) for name in ("none/audit.log", "diary"))

    assert "cannot be written: No such file" in audit_fault(nowhere)
    assert "does not end as an audit log does" in audit_fault(diary)
    (tmp_path / "full").symlink_to("/dev/full")
    assert "is no file that lines can be appended to" in audit_fault(AuditConfig(file=str(tmp_path / "full")))
    assert not (tmp_path / "full.head").exists()
    assert audit_fault(AuditConfig()) == ""
    assert serve(Config(audit=diary)) == 1
    assert "audit.file" in capsys.readouterr().err


async def test_a_probe_that_says_no_and_a_page_that_is_not_there_are_not_refused_and_a_stranger_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.log"
    async with opened(auth=WITH_KEYS, audit=AuditConfig(file=str(path))) as door:
        door.house.gateway.drain()
        probes = [await door.http.get("/admin/readiness"), await door.http.get("/admin/none", headers=bearer(ADMIN))]
        strangers = [await door.http.get("/admin/keys"), await door.http.get("/admin/keys", headers=bearer(USER))]
        await eventually(lambda: path.exists() and len(lines_of(path)) == 3)

    assert [each.status_code for each in (*probes, *strangers)] == [503, 404, 401, 403]
    assert [each["outcome"] for each in lines_of(path)[1:]] == ["AuthenticationFailed", "PermissionDenied"]
    assert "readiness" not in caplog.text
