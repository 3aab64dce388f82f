"""Many gateways as one: membership, and the state that they exchange.

Begin with `base`, the roles of membership and carrier. `state` has what is known, pure; `carriers` how words travel; `member` is
this gateway's end, which runs both. What of a gateway takes part (limits, workers, loads, keys) is in `meshed`.
"""
