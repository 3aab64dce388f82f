"""OpenAI Responses: routes, memory, socket, flow. `wire` has its types, decoder and encoders."""
