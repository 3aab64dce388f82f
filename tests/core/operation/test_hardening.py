"""The audit: a configuration by default passes, and each row finds what breaks it."""

from pathlib import Path
from typing import Any

import pytest

from smg_core.admin.settings import AdminConfig
from smg_core.auth.settings import AuthConfig
from smg_core.cli import main
from smg_core.config.config import Config, describe
from smg_core.http.proxies.settings import ProxiesConfig
from smg_core.http.settings import MediaConfig, ModelConfig, ServerConfig
from smg_core.observability.settings import ObservabilityConfig
from smg_core.operation.hardening import BOUNDS, CHECKS, SECRET_FILES, Facts, audit
from smg_core.server.tls.settings import TlsConfig
from smg_core.wire.settings import LimitsConfig

OUT = ServerConfig(host="0.0.0.0")
BREACHES: dict[str, tuple[dict[str, Any], Facts]] = {
    "listener.identity": ({"server": OUT}, Facts(is_open=True)),
    "listener.tls": ({"server": OUT}, Facts(is_open=False)),
    "listener.browsers": ({"server": ServerConfig(allowed_hosts=("*",))}, Facts(is_open=True)),
    "listener.proxies": ({"proxies": ProxiesConfig(trusted=("0.0.0.0/0",))}, Facts(is_open=True)),
    "tls.revocation": ({"tls": TlsConfig(client_ca="ca.pem")}, Facts(is_open=True)),
    "keys.files": ({}, Facts(is_open=True, modes={"tls.key": 0o100640})),
    "keys.hashed": ({"auth": AuthConfig(keys=("a-key-of-acme-012345",))}, Facts(is_open=False)),
    "admin.door": ({"admin": AdminConfig(port=0)}, Facts(is_open=True)),
    "bounds.requests": ({"limits": LimitsConfig(body_bytes=1 << 30)}, Facts(is_open=True)),
    "log.content": ({"observability": ObservabilityConfig(log_level="debug")}, Facts(is_open=True)),
    "requests.headers": ({"model": ModelConfig(parser_header=True)}, Facts(is_open=True)),
    "media.fetching": ({"media": MediaConfig(allow_http=True)}, Facts(is_open=True)),
}


def failed(config: Config, facts: Facts) -> list[str]:
    return [finding.check.name for finding in audit(config, facts) if finding.faults]


def test_a_gateway_with_default_settings_passes_every_check() -> None:
    assert failed(Config(), Facts(is_open=True)) == []


def test_every_check_has_a_configuration_that_it_finds() -> None:
    assert set(BREACHES) == {check.name for check in CHECKS}
    assert len(BREACHES) == len(CHECKS)


@pytest.mark.parametrize("name", BREACHES)
def test_what_breaks_a_rule_is_found_by_its_row(name: str) -> None:
    sections, facts = BREACHES[name]

    assert name in failed(Config(**sections), facts)


def test_a_gateway_on_the_internet_passes_with_identity_tls_and_private_files() -> None:
    config = Config(
        server=OUT,
        tls=TlsConfig(cert="a", key="b", client_ca="c", client_crl="d"),
        auth=AuthConfig(keys=("sha256:" + "0" * 64 + " tenant=a",)),
        admin=AdminConfig(socket="s"),
    )

    assert failed(config, Facts(is_open=False, modes={"tls.key": 0o100600})) == []


def test_the_table_names_settings_that_there_are() -> None:
    known = {setting.path for setting in describe()}

    assert set(BOUNDS) | set(SECRET_FILES) <= known


@pytest.mark.parametrize(("mode", "status"), [(0o600, 0), (0o644, 1)])
def test_the_command_looks_at_the_files_and_fails_where_a_check_does(
    mode: int, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "keys.txt"
    path.write_text("sha256:" + "0" * 64 + " tenant=a\n")
    path.chmod(mode)

    assert main(["audit", "--auth-keys-file", str(path)]) == status
    said = capsys.readouterr().out.splitlines()
    assert len([line for line in said if line.startswith(("pass", "FAIL"))]) == len(CHECKS)
    assert any("keys.files" in line and line.startswith("FAIL") for line in said) is bool(status)
    assert any("0644" in line for line in said) is bool(status)


def test_a_history_that_others_may_read_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "history.db"
    file.touch()
    said = []
    for mode in (0o600, 0o644):
        file.chmod(mode)
        said.append((main(["audit", "--history", f"sqlite:///{file}"]), "history.url" in capsys.readouterr().out))

    assert said == [(0, False), (1, True)]
