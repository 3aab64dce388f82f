"""Who sends a request, and what that caller may do.

- `settings`: the record of settings, `auth` in the configuration
- `roles`: the table of permissions, and the roles that name some of them
- `base`: what an authenticator is
- `credentials`: the one credential that a request carries
- `keys`: API keys from settings and files
- `virtual_keys`: keys that are made and revoked while the gateway runs
- `attempts`: limits how often one address may fail
- `oidc`: callers by the tokens of an OpenID Connect issuer; `issuer` fetches its documents (edges)
- `jwks`: the issuer's keys, and when they are fetched again
- `tokens`, `json_objects`: what a token says, and whether it may be believed

The rest is pure. `identity.identity` makes authenticators from the settings and asks them for every request.
"""
