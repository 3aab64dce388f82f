"""OpenAI Responses on the wire: types, decoder, items, encoders and the grammar of its stream. Pure."""
