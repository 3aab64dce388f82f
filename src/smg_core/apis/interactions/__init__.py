"""Google Interactions: types, decoder, encoders, memory, routes."""
