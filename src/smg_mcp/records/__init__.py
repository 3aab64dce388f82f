"""The records that smg_mcp hands over and is set by, the roles that others implement, and its errors.

Begin with `base`; `settings` has what can be set, `errors` what can go wrong between a call and its result. Pure.
"""
