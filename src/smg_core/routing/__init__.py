"""Routing policies, and the index of which engine has which prompt cached.

    from smg_core.routing import CacheAware, CandidateRecord, RoutingContext

    CacheAware().pick([CandidateRecord("a"), CandidateRecord("b", queued=3)], RoutingContext()).worker.name  # "a"

Begin with `base`: a policy is an object with `pick(candidates, context)`. `named` has the policies by name (`simple`,
`affinity`, `manual`, `bucket`, `least_load`, `ranks`, `cache_aware`), and other packages add theirs through the entry point
group `smg.policies`; a program passes its own as `Gateway(policy=...)`. `policies` holds those in use. `work` says what load
is; `block_keys`, `prefix_index`, `kv_index`, `expected_cache` and `sent_journal` what caches have of a prompt; `rendezvous` and
`agreed` what all gateways find alike; `model_choice`, `retry_budget`, `hedging` and `decisions` are the other choices of a
request. The names below load their modules when they are first used.
"""

from typing import TYPE_CHECKING

from smg_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from smg_core.routing.affinity import ConsistentHashing as ConsistentHashing
    from smg_core.routing.affinity import PrefixHash as PrefixHash
    from smg_core.routing.base import Basis as Basis
    from smg_core.routing.base import Candidate as Candidate
    from smg_core.routing.base import KvKnown as KvKnown
    from smg_core.routing.base import Observing as Observing
    from smg_core.routing.base import Pick as Pick
    from smg_core.routing.base import Policy as Policy
    from smg_core.routing.base import RankState as RankState
    from smg_core.routing.base import Remembering as Remembering
    from smg_core.routing.base import RequestEnded as RequestEnded
    from smg_core.routing.base import RoutingContext as RoutingContext
    from smg_core.routing.base import UnknownPolicy as UnknownPolicy
    from smg_core.routing.bucket import Bucket as Bucket
    from smg_core.routing.cache_aware import CacheAware as CacheAware
    from smg_core.routing.decisions import Decisions as Decisions
    from smg_core.routing.decisions import Replayed as Replayed
    from smg_core.routing.decisions import RoutingDecision as RoutingDecision
    from smg_core.routing.decisions import replay_decisions as replay_decisions
    from smg_core.routing.least_load import LeastLoad as LeastLoad
    from smg_core.routing.manual import Manual as Manual
    from smg_core.routing.named import POLICIES as POLICIES
    from smg_core.routing.named import policy as policy
    from smg_core.routing.named import policy_for as policy_for
    from smg_core.routing.policies import Policies as Policies
    from smg_core.routing.ranks import DpMinToken as DpMinToken
    from smg_core.routing.settings import RoutingConfig as RoutingConfig
    from smg_core.routing.simple import LeastRequests as LeastRequests
    from smg_core.routing.simple import Passthrough as Passthrough
    from smg_core.routing.simple import PowerOfTwo as PowerOfTwo
    from smg_core.routing.simple import Random as Random
    from smg_core.routing.simple import RoundRobin as RoundRobin
    from smg_core.tokens import TokenIds as TokenIds
    from smg_core.workers.candidate import CandidateRecord as CandidateRecord

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "smg_core.routing.affinity": ("ConsistentHashing", "PrefixHash"),
        "smg_core.routing.base": (
            "Basis",
            "Candidate",
            "KvKnown",
            "Observing",
            "Pick",
            "Policy",
            "RankState",
            "Remembering",
            "RequestEnded",
            "RoutingContext",
            "UnknownPolicy",
        ),
        "smg_core.routing.bucket": ("Bucket",),
        "smg_core.routing.cache_aware": ("CacheAware",),
        "smg_core.routing.decisions": ("Decisions", "Replayed", "RoutingDecision", "replay_decisions"),
        "smg_core.routing.least_load": ("LeastLoad",),
        "smg_core.routing.manual": ("Manual",),
        "smg_core.routing.named": ("POLICIES", "policy", "policy_for"),
        "smg_core.routing.policies": ("Policies",),
        "smg_core.routing.ranks": ("DpMinToken",),
        "smg_core.routing.settings": ("RoutingConfig",),
        "smg_core.routing.simple": ("LeastRequests", "Passthrough", "PowerOfTwo", "Random", "RoundRobin"),
        "smg_core.tokens": ("TokenIds",),
        "smg_core.workers.candidate": ("CandidateRecord",),
    },
)
