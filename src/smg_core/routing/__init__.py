"""Routing policies, which choose the worker of a request.

A policy is an object with `pick(candidates, context)`. `POLICIES` has the built-in ones by name; other packages add theirs
through the entry point group `smg.policies`, a setting may name any object as `package.module:attribute`, and a program passes
its own as `Gateway(policy=...)`.

- `base`: what a policy gets and returns

- `simple`, `affinity`, `manual`, `bucket`, `least_load`, `ranks`, `cache_aware`: the policies

- `work`: what load is, and who is chosen of equal ones

- `block_keys`, `prefix_index`, `kv_index`: which prompts begin alike, who was sent what, and what engines tell of their caches

- `rendezvous`, `agreed`: which worker all gateways find for a prompt, without asking each other

- `expected_cache`: what a worker's cache has of a prompt, by these

- `named`: the policies by name

- `sent_journal`: the file in which it is kept what was sent where

- `model_choice`: which model answers, where a name is split or a model cannot

- `retry_budget`, `hedging`: how often a request may be asked of further workers

- `decisions`: what was decided, and asked again of another policy
- `policies`: the policy objects in use, one for each model and role

Exports everything that a policy's author needs.
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
