"""Google Interactions: types, decoder, encoders, memory, routes.

Begin with `routes`, the row, and `api`, a row for each wire revision. `decode` and `encode` translate, `grammar` has the order
of a stream, `memory` and `records` what is kept, `resume` what is sent again.
"""
