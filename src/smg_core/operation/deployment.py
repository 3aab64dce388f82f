"""Looks at a deployment for `smg-gateway audit` (edge).

Finds what the settings do not say themselves, the modes of the files with secrets that they name, and has `operation.hardening`
judge. Above: cli. Below: operation.hardening, identity.identity.
"""

from pathlib import Path

from smg_core.config.config import Config
from smg_core.identity.identity import is_open
from smg_core.operation.hardening import SECRET_FILES, AuditFinding, Facts, audit
from smg_core.settings import ConfigError

__all__ = ["audit_deployment"]


def audit_deployment(config: Config) -> list[AuditFinding]:
    """What each check finds. Raises ConfigError for a file that cannot be looked at."""
    modes = {}
    for path in SECRET_FILES:
        if place := config.get(path):
            try:
                modes[path] = Path(str(place)).expanduser().stat().st_mode
            except OSError as error:
                raise ConfigError(f"{path}: {place} cannot be looked at: {error.strerror or error}") from None
    kind, _, place = (config.history.url or "").partition(":///")
    if kind == "sqlite" and (kept := Path(place.partition("?")[0])).is_file():
        modes["history.url"] = kept.stat().st_mode  # what users said; a file that is not there yet is made private
    return audit(config, Facts(is_open(config), modes))
