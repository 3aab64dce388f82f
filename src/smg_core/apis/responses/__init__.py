"""OpenAI Responses: routes, memory, socket, flow. `wire` has its types, decoder and encoders.

Begin with `routes`, the row, and `api`, how it is decoded and encoded. `flow` compacts where the client wants it, `memory` and
`stored` have what is kept, `socket` goes over a WebSocket.
"""
