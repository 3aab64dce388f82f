"""The caller of a request: asks the authenticators, and has virtual keys. Above: the app. Below: auth.

Begin with `identity`, which asks the authenticators of `auth` for every request. `virtual_keys` makes, rotates and revokes keys
while the gateway runs; `certificates` finds callers by TLS.
"""
