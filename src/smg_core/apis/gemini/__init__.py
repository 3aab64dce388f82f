"""Google generateContent: types, decoder, encoders, routes."""
