"""smg_egress: Which addresses a process may be made to ask.

For every client whose URLs others choose; the standard library alone. Begin with `rules`, which takes or refuses a URL and an
address; `resolving` looks hosts up, `escapes` reads what is written in another way.
"""

from smg_egress.rules import EgressRefused, FetchTarget, UrlRules, is_public

__all__ = ["EgressRefused", "FetchTarget", "UrlRules", "is_public"]
