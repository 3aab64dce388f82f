"""The rules for names of tenants and principals, wherever they come from.

Names are logged, hashed, compared, and part of what stores keep, so they are short and printable, and nothing around them is
blank. Pure. Above: `keys`, `tokens`, `identity.virtual_keys`. Below: nothing.
"""

__all__ = ["LONGEST_NAME", "is_caller_name"]

LONGEST_NAME = 255
"""Characters of a name: what every store can keep."""


def is_caller_name(text: str) -> bool:
    """Whether a tenant, a principal or a key may be called so."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable() and text.strip() == text
