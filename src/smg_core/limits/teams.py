"""Teams of a tenant: which team a key is of.

Pure. A line is TENANT:TEAM=KEY,KEY; a key may end with an asterisk, a tenant's team may be within another: "search/ranking" is in
"search", and counts under its rules too. Above: `serving.limiting`. Below: the rules.
"""

import re
from collections.abc import Iterable

import attrs

from smg_core.limits.rules import RuleRefused

__all__ = ["NO_TEAMS", "Teams", "read_teams"]

_LINE = re.compile(r"(?P<tenant>[^:=,\s]*):(?P<team>[^:=,*\s]+)=(?P<keys>[^:=\s]+)")


@attrs.frozen
class Teams:
    """The teams of keys, by tenant and key, and by how keys begin, the longest first."""

    exact: dict[tuple[str, str], str]
    begins: tuple[tuple[str, str, str], ...]

    def team(self, tenant: str, key: str) -> str:
        """The team of a key, "" where it has none."""
        found = self.exact.get((tenant, key))
        if found is not None:
            return found
        return next((team for whose, begin, team in self.begins if whose == tenant and key.startswith(begin)), "")


NO_TEAMS = Teams({}, ())


def read_teams(lines: Iterable[str]) -> Teams:
    """The teams of these lines. Raises RuleRefused, also for a key that would be in two teams."""
    found: dict[tuple[str, str], str] = {}
    for line in lines:
        parts = _LINE.fullmatch(line.strip())
        if parts is None or "" in parts["team"].split("/"):
            raise RuleRefused(f"{line!r} is no team, such as 'acme:search=one,two' or 'acme:search/ranking=three-*'")
        for key in filter(None, parts["keys"].split(",")):
            if found.setdefault((parts["tenant"], key), parts["team"]) != parts["team"]:
                raise RuleRefused(f"{line!r}: {key!r} is in {found[parts['tenant'], key]!r} already")
    begins = sorted((each for each in found if each[1].endswith("*")), key=lambda each: len(each[1]), reverse=True)
    return Teams(
        {each: team for each, team in found.items() if not each[1].endswith("*")},
        tuple((tenant, key[:-1], found[tenant, key]) for tenant, key in begins),
    )
