"""Opens the listeners of a gateway, and tells where they are (edge).

Called once, before any process starts: the public listener, and the admin door's if the settings name one. What cannot be opened
stops the start. Above: processes.serve. Below: the settings, server.admin_listener.
"""

import logging
import socket

import attrs

from smg_core.config.config import Config
from smg_core.http.browsers import is_loopback
from smg_core.identity.identity import is_open
from smg_core.server.admin_listener import admin_listener, close_listener
from smg_core.server.tls_accept import contexts_of
from smg_core.settings import ConfigError

__all__ = ["Listeners", "open_listeners", "tell_listeners"]

log = logging.getLogger("smg.server")


@attrs.frozen
class Listeners:
    """The sockets that a gateway listens on: the public one, the admin door's and that of the metrics if there are any."""

    public: socket.socket
    admin: socket.socket | None = None
    metrics: socket.socket | None = None

    def for_process(self, number: int) -> "Listeners":
        """What a process has of them; the first of several has the admin door and the metrics."""
        return self if number == 0 else Listeners(self.public)

    def url(self, config: Config) -> str:
        """Where the public listener can be called."""
        return f"{_scheme(config)}://{_named(*self.public.getsockname()[:2])}"

    def close(self, config: Config) -> None:
        """Close the admin door and that of the metrics; called when all processes have ended."""
        close_listener(config, self.admin)
        if self.metrics is not None:
            self.metrics.close()


def open_listeners(config: Config) -> Listeners | None:
    """Open the listeners that the settings name. None where one cannot be opened, which is logged."""
    where, flag = f"{config.server.host} port {config.server.port}", "--port"
    opened: list[socket.socket] = []
    try:
        contexts_of(config)
        opened.append(listener := _listen(config))
        where = config.admin.socket or f"{config.admin.host} port {config.admin.port}"
        flag = "--admin-socket" if config.admin.socket else "--admin-port"
        if (admin := admin_listener(config)) is not None:
            opened.append(admin)
        where, flag = f"{config.metrics.host} port {config.metrics.port}", "--metrics-port"
        return Listeners(listener, admin, _metrics_listener(config))
    except ConfigError as error:
        log.critical("the gateway cannot start: %s", error)
    except OSError as error:
        log.critical("cannot listen on %s: %s; %s names another", where, error.strerror or error, flag)
    for each in opened:
        each.close()
    return None


def tell_listeners(config: Config, listeners: Listeners, processes: int) -> None:
    """Log where the gateway listens, and whom it asks nothing there."""
    host, port = listeners.public.getsockname()[:2]
    if not is_loopback(config.server.host) and is_open(config):
        log.warning(
            "listening on %s without asking who sends a request: whoever reaches it may use it", config.server.host
        )
    count = "1 process" if processes == 1 else f"{processes} processes"
    log.info("listening on %s://%s:%d with %s", _scheme(config), host, port, count)
    if listeners.admin is not None:
        name = listeners.admin.getsockname()
        place = (
            f"unix:{name}"
            if isinstance(name, str)
            else f"{'https' if config.admin.tls else 'http'}://{_named(*name[:2])}"
        )
        log.info("the admin door is at %s%s", place, ", for everybody who reaches it" if is_open(config) else "")
    if listeners.metrics is not None:
        log.info("metrics are at http://%s%s", _named(*listeners.metrics.getsockname()[:2]), config.metrics.path)


def _listen(config: Config) -> socket.socket:
    return _listener(config.server.host, config.server.port, config.server.backlog)


def _metrics_listener(config: Config) -> socket.socket | None:
    """The socket of the metrics, None where the settings name no port."""
    metrics = config.metrics
    return None if metrics.port is None else _listener(metrics.host, metrics.port, config.server.backlog)


def _listener(host: str, port: int, backlog: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _scheme(config: Config) -> str:
    return "https" if config.tls.cert else "http"


def _named(host: str, port: int) -> str:
    """Host and port as a URL has them; for a server that listens everywhere, the loopback, where it can be tried."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  (compared, not listened on)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
