"""The sources of a gateway's settings, to read them again (edge: it reads a file).

Above: the command line makes it, `operation.control` reads by it when it is asked to reload, the supervisor when it replaces its
processes. Below: config.
"""

from collections.abc import Mapping
from pathlib import Path

import attrs

from smg_core.config.config import Resolved, resolve
from smg_core.settings import ConfigError

__all__ = ["ConfigSource"]


@attrs.frozen
class ConfigSource:
    """Flags by the path of their setting, the environment, and the name of the file if there is one."""

    overrides: Mapping[str, object] = attrs.field(factory=dict, repr=False)
    environ: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    file: str | None = None

    def read(self) -> Resolved:
        """The settings as they are now. Raises ConfigError with every problem. To be called off the event loop."""
        text = None
        if self.file:
            try:
                text = Path(self.file).expanduser().read_text(encoding="utf-8")
            except OSError as error:
                raise ConfigError(f"{self.file}: cannot be read: {error.strerror or error}") from None
            except UnicodeDecodeError as error:
                raise ConfigError(f"{self.file}: cannot be read: {error}") from None
        return resolve(self.overrides, self.environ, text, str(self.file))
