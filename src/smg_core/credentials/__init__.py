"""Credentials of outside providers: read, asked for, renewed before they end, and never shown.

`engines.connections.credential` has the record of what an operator says; `open_credential` makes a signer of it, which gives each
request its headers.

opening      `open_credential`: the signer of a credential that is configured (edge)
renewed      `Renewed`: a value that is asked for anew before it ends, by one at a time (edge)
granted      `Granted`: a value with the times at which it is renewed, awaited and over
keys         keys from files, the environment and commands (edge)
programs     runs a program that writes a credential, within bounds (edge)
fields       `KeySigner` and `TokenSigner`: one header with a key or a token
asking       requests for tokens, under the rules of egress (edge)

No module of this package is loaded unless a worker has a credential.
"""
