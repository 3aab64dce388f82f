"""OpenAI Responses on the wire: types, decoder, items, encoders and the grammar of its stream. Pure.

Begin with `decode` and `encode`. `items` and `content` read what a request says, `builder` builds the answer from events,
`grammar` has the order of its stream, `frames` those of a WebSocket.
"""
