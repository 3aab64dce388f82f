"""Authentication by tokens of one's own: a header names the team, and the gateway's keys are not asked.

- source: check_tokens:CheckTokens
  when: before_identity
  grants: [tenant]
  config: {tokens: ["s3cret=acme"]}
"""

import hmac
from collections.abc import Mapping

import attrs

from smg_core.middleware.base import ChangeHead, HeadVerdict, Reject, RequestHead
from smg_core.middleware.python import PythonPlugin

HEADER = "x-team-token"


class CheckTokens(PythonPlugin):
    """A request with a token is its team's, and goes on without the token; any other is refused."""

    @attrs.frozen
    class Settings:
        tokens: list[str]

    @classmethod
    def prepare(cls, settings: Settings) -> Mapping[str, str]:
        teams = dict(each.partition("=")[::2] for each in settings.tokens)
        if not teams or not all(token and tenant for token, tenant in teams.items()):
            raise ValueError("tokens is a list of TOKEN=TENANT")
        return teams

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        given = dict(head.headers).get(HEADER, "")
        for token, tenant in self.shared.items():
            if hmac.compare_digest(given.encode(), token.encode()):
                return ChangeHead(remove=(HEADER,), tenant=tenant, principal="team")
        return Reject(401, "A token of your team is needed in x-team-token.")
