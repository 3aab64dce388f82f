"""Whether a call may be made: the policy, as a pure function.

Above: `tools`, which enforces it before every call, and a gateway, which asks before it stores a call that needs approval.
Below: `records.base`, `records.settings`. Knows no session, no clock and no store.
"""

from fnmatch import fnmatchcase

from smg_mcp.records.base import CallFacts, CallVerdict, Decision
from smg_mcp.records.settings import McpPolicy, PolicyRule

__all__ = ["Approval", "stricter"]

_STRICTNESS: dict[CallVerdict, int] = {"allow": 0, "ask": 1, "deny": 2}


class Approval:
    """Decides by a policy: the tool's own line, else the first rule that fits, else the server's trust, else the defaults."""

    def __init__(self, policy: McpPolicy) -> None:
        self._policy = policy

    def decide(self, facts: CallFacts) -> Decision:
        """The decision for one call; the same facts always give the same."""
        policy = self._policy
        named = policy.tools.get(f"{facts.server}.{facts.tool}")
        if named is not None:
            return Decision(named, f"the policy says {named} for this tool", f"tools.{facts.server}.{facts.tool}")
        for index, rule in enumerate(policy.rules):
            if _fits(rule, facts):
                reason = rule.reason or f"rule {index} of the policy says {rule.decision}"
                return Decision(rule.decision, reason, f"rules[{index}]")
        trusted = self._by_trust(facts)
        if trusted is not None:
            return trusted
        return Decision(policy.default, f"the policy's default is {policy.default}", "default")

    def _by_trust(self, facts: CallFacts) -> Decision | None:
        server = self._policy.servers.get(facts.server)
        if server is None:
            return None
        source = f"servers.{facts.server}"
        if server.trust_level == "trusted" and server.default is None:
            return Decision("allow", "the server is trusted", source)
        if server.trust_level == "untrusted" and facts.hints.is_destructive:
            return Decision("deny", "the tool may destroy something and its server is not trusted", source)
        if server.trust_level == "sandboxed":
            if facts.hints.is_read_only and not facts.hints.is_open_world:
                return Decision("allow", "the tool only reads, within its sandbox", source)
            return Decision("deny", "the tool reaches out of its sandbox or changes something", source)
        if server.default is not None:
            return Decision(server.default, f"the server's default is {server.default}", source)
        return None


def stricter(decision: Decision, other: Decision) -> Decision:
    """The stricter of two decisions, the first where they are alike: what a request wishes can make the policy stricter and never
    looser."""
    return other if _STRICTNESS[other.verdict] > _STRICTNESS[decision.verdict] else decision


def _fits(rule: PolicyRule, facts: CallFacts) -> bool:
    for pattern, value in ((rule.tenant, facts.tenant), (rule.server, facts.server), (rule.tool, facts.tool)):
        if pattern is not None and not fnmatchcase(value, pattern):
            return False
    hints = facts.hints
    stated = (
        (rule.read_only, hints.is_read_only),
        (rule.destructive, hints.is_destructive),
        (rule.open_world, hints.is_open_world),
    )
    return all(wanted is None or wanted is value for wanted, value in stated)
