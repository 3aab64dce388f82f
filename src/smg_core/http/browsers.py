"""Keeps web pages in a browser on the same machine from using a gateway.

A page may send a "simple" request to any address without asking: so a body counts as JSON only where its content type says so,
which a page cannot set without a preflight; and a body of another kind is taken only from pages that may ask. A page may also
have its own name point to 127.0.0.1: so a gateway that listens on the loopback takes only requests for the loopback's names. And
a page may open a WebSocket to any address, but cannot hide where it is from: so only pages of the gateway itself and of the
allowed origins may. Pure. Above: app.app and processes.serve.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs

from smg_core.errors import PermissionDenied, UnsupportedMedia

__all__ = ["READS_ONLY", "Hosts", "check_form", "check_json_type", "check_origin", "hosts_taken", "is_loopback"]

LOOPBACK = ("localhost", ".localhost", "127.0.0.1", "::1")
_NEED_PREFLIGHT = ("authorization", "x-api-key", "x-goog-api-key")
READS_ONLY = ("GET", "HEAD", "OPTIONS")


@lru_cache(maxsize=64)
def is_loopback(address: str) -> bool:
    """Whether the address can be reached only from this machine."""
    return address in ("localhost", "::1") or address.startswith("127.")


@attrs.frozen
class Hosts:
    """The hosts that requests to a listener may name. `everywhere`: checked for all requests, else only for those to the
    loopback. `setting` is the address of the setting that names them."""

    names: tuple[str, ...]
    everywhere: bool
    setting: str

    def check(self, scope: Mapping[str, Any], header: str) -> None:
        """Raise PermissionDenied for a Host header with another name. Requests in process, and those without a host, do not
        come from a browser and pass."""
        if scope.get("client") is None:
            return
        if not self.everywhere and not is_loopback((scope.get("server") or ("",))[0]):
            return
        name = header[1 : header.find("]")] if header.startswith("[") else header.partition(":")[0]
        name = name.lower().rstrip(".")
        if not name or name in self.names:
            return
        if not any(each.startswith(".") and name.endswith(each) for each in self.names):
            raise PermissionDenied(
                f"The gateway does not take requests for this host; {self.setting} names those it takes."
            )


def hosts_taken(listens: str, allowed: tuple[str, ...], setting: str) -> Hosts | None:
    """The hosts that requests may name, None for all. `listens` is the address of the listener, `allowed` what its `setting`
    says."""
    if "*" in allowed:
        return None
    if allowed:
        return Hosts(tuple(name.lower() for name in allowed), everywhere=True, setting=setting)
    return Hosts((*LOOPBACK, listens), everywhere=False, setting=setting) if is_loopback(listens) else None


def check_origin(origin: str | None, host: str, allowed: Sequence[str] | None) -> None:
    """Raise PermissionDenied for what a page of another origin asks than the gateway's own, by the Host header, and those that
    are `allowed`; None where no setting allows any. Clients that are no browsers send no origin."""
    if origin is None or (host and origin.rpartition("://")[2] == host):
        return
    if allowed is None:
        raise PermissionDenied("The gateway takes nothing from pages of this origin here.")
    if origin in allowed or "*" in allowed:
        return
    raise PermissionDenied(
        "The gateway takes nothing from pages of this origin; server.cors_origins names those whose pages may ask."
    )


def check_form(headers: Mapping[str, str], allowed: Sequence[str] | None) -> None:
    """As `check_origin`, for a request that changes something and whose body need not be JSON: a page can send it to any address
    without a preflight. A request with a credential in a header had one."""
    if any(name in headers for name in _NEED_PREFLIGHT) or headers.get("sec-fetch-site") in ("same-origin", "none"):
        return
    check_origin(headers.get("origin"), headers.get("host", ""), allowed)


def check_json_type(header: str) -> None:
    """Raise UnsupportedMedia for a content type that is not JSON's."""
    kind = header.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise UnsupportedMedia("The content type of a request's body is application/json.")
