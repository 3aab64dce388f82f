"""Sessions with servers, one for each server, tenant and set of credentials.

Begin with `session` (edge), which opens its connection again after it has ended; `pool` holds the sessions, within a bound.
"""
