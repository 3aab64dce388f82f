"""Authenticators: the tenant of a key, token or certificate, and its rights.

Begin with `base`, what an authenticator is, and `roles`, the table of permissions. `credentials` finds the one credential of a
request; `keys` and `virtual_keys` know API keys, `oidc` (edge) tokens of an OpenID Connect issuer by `issuer`, `jwks`, `tokens`
and `json_objects`; `attempts` limits how often one address may fail. `identity.identity` makes authenticators and asks them.
"""
