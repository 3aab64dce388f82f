"""Reports the gateway's state to the service manager that started it (sd_notify(3)) (edge).

systemd names a socket in NOTIFY_SOCKET; elsewhere nothing is told. Above: processes.serve, processes.supervisor. Below: the
environment.
"""

import asyncio
import contextlib
import os
import socket
import time

__all__ = ["ManagerNotices"]


class ManagerNotices:
    """What is told to the service manager. `pause` is half of the seconds after which it ends a gateway that says nothing, 0
    where it does not wait for that."""

    def __init__(self, environ: "os._Environ[str] | dict[str, str]" = os.environ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        usec = environ.get("WATCHDOG_USEC", "")
        watched = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.pause = int(usec) / 2e6 if usec.isascii() and usec.isdigit() and watched and self._address else 0.0

    def ready(self) -> None:
        """It answers requests: at the start, and again after a reload."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """It reads its settings anew; `ready` follows."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """It shuts down."""
        self._tell("STOPPING=1")

    def alive(self) -> None:
        """It works; told at least every `pause` seconds."""
        if self.pause:
            self._tell("WATCHDOG=1")

    async def keep_telling(self) -> None:
        """Tell that the event loop works, until this is cancelled."""
        while self.pause:
            self.alive()
            await asyncio.sleep(self.pause)

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(state.encode(), self._address)
