"""Routing policies, which choose the worker of a request, and what is known of which engine has which prompt in its cache.

Begin with `base`: a policy is an object with `pick(candidates, context)`. `named` has the policies by name (`simple`,
`affinity`, `manual`, `bucket`, `least_load`, `ranks`, `cache_aware`), and other packages add theirs through the entry point
group `smg.policies`; a program passes its own as `Gateway(policy=...)`. `policies` holds those in use. `work` says what load
is; `block_keys`, `prefix_index`, `kv_index`, `expected_cache` and `sent_journal` what caches have of a prompt; `rendezvous` and
`agreed` what all gateways find alike; `model_choice`, `retry_budget`, `hedging` and `decisions` are the other choices of a
request.
"""

from smg_core.routing.base import (
    Basis,
    Candidate,
    KvKnown,
    Observing,
    Pick,
    Policy,
    RankState,
    Remembering,
    RequestEnded,
    RoutingContext,
    UnknownPolicy,
)
from smg_core.routing.decisions import Decisions, Replayed, RoutingDecision, replay_decisions
from smg_core.routing.named import POLICIES, policy, policy_for
from smg_core.routing.policies import Policies
from smg_core.routing.simple import LeastRequests, Passthrough, PowerOfTwo, Random, RoundRobin
from smg_core.workers.candidate import CandidateRecord

__all__ = [
    "POLICIES",
    "Basis",
    "Candidate",
    "CandidateRecord",
    "Decisions",
    "KvKnown",
    "LeastRequests",
    "Observing",
    "Passthrough",
    "Pick",
    "Policies",
    "Policy",
    "PowerOfTwo",
    "Random",
    "RankState",
    "Remembering",
    "Replayed",
    "RequestEnded",
    "RoundRobin",
    "RoutingContext",
    "RoutingDecision",
    "UnknownPolicy",
    "policy",
    "policy_for",
    "replay_decisions",
]
