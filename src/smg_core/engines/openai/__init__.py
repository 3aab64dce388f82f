"""Engines that speak chat: servers of the Chat Completions API behind the gateway. A request goes in, events come out.

engine              `OpenAiEngine`: the HTTP client (edge); all other modules are pure
body, messages      write a `GenerationRequest` as the body of a request
fields              which fields of a request are written, and the refusal of all others
chunks              the wire types that are read
events              reads the stream
answers             reads HTTP errors, errors in the stream, and the list of models
address             reads the server's URL
"""
