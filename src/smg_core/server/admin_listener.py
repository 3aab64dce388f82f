"""Opens the listener of the admin door (edge).

Called once, before any process starts. Decides where the door may be: without identity on the loopback or a Unix socket alone,
and on an address that other machines reach only with identity and TLS. The socket's file is for the gateway's user alone (mode
0600); one that a dead gateway has left is taken away, one that somebody listens on is not. Above: processes.serve.
"""

import os
import socket
import stat
from pathlib import Path

from smg_core.config.config import Config
from smg_core.http.browsers import is_loopback
from smg_core.identity.identity import is_open
from smg_core.settings import ConfigError

__all__ = ["admin_listener", "close_listener"]


def admin_listener(config: Config) -> socket.socket | None:
    """The socket of the admin door, None where the settings name none. Raises ConfigError for a door that would be open to
    others, and OSError."""
    admin = config.admin
    if not admin.is_open:
        return None
    if admin.socket is not None and admin.port is not None:
        raise ConfigError("admin.socket and admin.port: the admin door is at one of them")
    if admin.socket is not None:
        return _unix_listener(Path(admin.socket).expanduser(), config.server.backlog)
    if admin.tls and config.tls.cert is None:
        raise ConfigError("admin.tls: tls.cert names no certificate")
    if not is_loopback(admin.host):
        if is_open(config):
            raise ConfigError(f"admin.host: {admin.host} is no loopback, and nobody there is asked who they are (auth)")
        if not admin.tls:
            raise ConfigError(f"admin.host: {admin.host} is no loopback; set admin.tls too")
    listener = socket.socket(socket.AF_INET6 if ":" in admin.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((admin.host, admin.port or 0))
        listener.listen(config.server.backlog)
    except OSError:
        listener.close()
        raise
    return listener


def _unix_listener(path: Path, backlog: int) -> socket.socket:
    _take_away(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # so that the file is private from its first moment
    try:
        listener.bind(str(path))
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


def _take_away(path: Path) -> None:
    """Remove the file of a socket on which nobody listens. Raises ConfigError for another file, and for a socket in use."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise ConfigError(f"admin.socket: {path} is there, and no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise ConfigError(f"admin.socket: somebody listens on {path}")


def close_listener(config: Config, listener: socket.socket | None) -> None:
    """Close the socket, and remove its file if it has one. Called when all processes have ended."""
    if listener is None:
        return
    listener.close()
    if config.admin.socket is not None:
        Path(config.admin.socket).expanduser().unlink(missing_ok=True)
