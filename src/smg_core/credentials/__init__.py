"""Credentials of outside providers, renewed before they end, never shown.

`engines.connections.credential` has the record of what an operator says; `open_signer` makes a signer of it, which gives each
request its headers.

opening   `open_signer`: the signer of a credential that is configured (edge)
renewal   what all credentials have in common
aws       AWS's keys, and what is signed with them
google    Google's tokens
entra     tokens of Entra ID, for Azure

No module of this package is loaded unless a worker has a credential.
"""
