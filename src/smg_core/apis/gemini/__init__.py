"""Google generateContent: types, decoder, encoders, routes.

Begin with `routes`, the row, and `api`, how it is decoded and encoded. `types` has the bodies, `decode` makes requests of them,
`encode` writes the answers.
"""
