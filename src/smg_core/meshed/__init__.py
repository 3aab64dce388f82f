"""A gateway's part in the mesh: limits, loads, workers, keys.

Begin with `opening`, which makes a member of a gateway. Each part says what is new of this gateway and makes something of what
others say: `counters` of limits, `loads` of requests in flight and health, `workers` of the roster, `revoked` of keys,
`settings_seen` of settings. Of several processes one is the member: they count by `shared_counters`, and `siblings` tells the
others what it hears.
"""
