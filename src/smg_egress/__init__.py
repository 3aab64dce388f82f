"""smg_egress: which addresses a process may be made to ask, for every client whose URLs others choose; standard library alone."""

from smg_egress.rules import EgressRefused, FetchTarget, UrlRules, is_public

__all__ = ["EgressRefused", "FetchTarget", "UrlRules", "is_public"]
