"""The addresses open to a built-in tool, by the domains that a request allows and blocks; and whether such a list is one.

A domain stands for itself and what is below it; with a path, for what begins with that, where one * stands for anything. Pure.
Above: `tools.built_ins`; the decoders. Below: errors.
"""

from collections.abc import Sequence
from posixpath import normpath
from urllib.parse import unquote, urlsplit

__all__ = ["in_query", "may_be_used"]

_IN_QUERY = 8
"""Domains that a query names, so that most of what is found is of them. What is found is judged by all."""


def may_be_used(url: str, allowed: Sequence[str], blocked: Sequence[str]) -> bool:
    """Whether an address is of an allowed domain (none: any), and of none that is blocked."""
    if not allowed and not blocked:
        return True
    try:
        parts = urlsplit(url)
        host = _host(parts.hostname or "")
    except ValueError:
        return False
    path = parts.path or "/"
    paths = {path, _resolved(path)}
    if any(_is_of(host, each, domain) for domain in blocked for each in paths):
        return False
    return not allowed or any(all(_is_of(host, each, domain) for each in paths) for domain in allowed)


def _host(name: str) -> str:
    """A host as it is asked for. Raises ValueError for one that is written in another way than names are."""
    if "%" in name:
        raise ValueError("a host with escapes")
    return (name if name.isascii() else name.encode("idna").decode("ascii")).lower().rstrip(".")


def _resolved(path: str) -> str:
    """The path that servers make of one with escapes, dots and doubled slashes."""
    plain = unquote(path).replace("\\", "/")
    ends = "/" if plain.endswith(("/", "/.", "/..")) else ""
    return ("/" + normpath(plain).strip("/") + ends).replace("//", "/")


def _is_of(host: str, path: str, domain: str) -> bool:
    name, slash, below = domain.partition("/")
    name = name.lower().removeprefix("*.").rstrip(".")
    if host != name and not host.endswith(f".{name}"):
        return False
    if not slash or not below:
        return True
    before, star, after = f"/{below}".partition("*")
    return path.startswith(before) and (not star or after in path[len(before) :])


def in_query(query: str, allowed: Sequence[str], blocked: Sequence[str]) -> str:
    """The query with the domains in the words that search services know."""
    sites = [f"site:{each.partition('/')[0]}" for each in allowed[:_IN_QUERY]]
    clauses = [f"({' OR '.join(sites)})"] if len(sites) > 1 else sites
    clauses += [f"-site:{each.partition('/')[0]}" for each in blocked[:_IN_QUERY]]
    return " ".join([query, *clauses])
