"""Sealed content that a client holds, and that is trusted when it comes back.

A model's reasoning goes to the client and comes back in a later request, and nothing about it is stored here. The client gets it
with a token that only this gateway can make, for this tenant and this family of models.

- `sealer`: tokens, keys and their rotation.
- `carried`: reasoning that only its provider can read, and who that is.
- `reasoning`: which API's reasoning is sealed how, and which of it can be used again.
- `settings`: the keys.
"""
