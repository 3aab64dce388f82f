"""The names of secrets in URLs and bodies, and both without them.

A name is a secret's by what it ends with, whatever case and hyphens it is written in; texts alone are left out, so that the
schema of a tool that takes a password stays. Pure. Above: cassette, said.
"""

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

__all__ = ["names_a_secret", "without_secrets", "without_url_secrets"]

_ENDS = (
    *("apikey", "accesskey", "privatekey", "secretkey", "accesstoken", "authtoken", "authorizationtoken", "idtoken"),
    *(
        "refreshtoken",
        "securitytoken",
        "sessiontoken",
        "secret",
        "password",
        "authorization",
        "credential",
        "signature",
    ),
)
_WHOLE = frozenset({"key", "token", "sig", "auth", "pass", "passwd", "code", "cookie", "bearer"})
"""Names that are a secret's in a URL; in a body they are other things too."""


def names_a_secret(name: str) -> bool:
    """Whether a field of this name has a secret."""
    return name.lower().replace("-", "").replace("_", "").endswith(_ENDS)


def without_url_secrets(url: str) -> str:
    """A URL, or its path with a query, without its user and what of the query names a secret."""
    try:
        parts = urlsplit(url)
        asked = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return ""
    kept = [(name, value) for name, value in asked if not (name.lower() in _WHOLE or names_a_secret(name))]
    host = parts.netloc.rpartition("@")[2]
    if len(kept) == len(asked) and host == parts.netloc:
        return url
    return parts._replace(netloc=host, query=urlencode(kept)).geturl()


def without_secrets(value: Any) -> Any:
    """What was decoded of a body, with empty texts in the place of secrets."""
    if isinstance(value, list):
        return [without_secrets(each) for each in value]
    if isinstance(value, str):
        return without_url_secrets(value) if value.startswith(("http://", "https://")) else value
    if not isinstance(value, dict):
        return value
    kept = {
        name: "" if isinstance(each, str) and names_a_secret(name) else without_secrets(each)
        for name, each in value.items()
    }
    if "server_url" in kept and isinstance(kept.get("headers"), dict):  # a tool's server, and what it is told
        kept["headers"] = dict.fromkeys(kept["headers"], "")
    return kept
