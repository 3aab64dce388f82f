"""The public APIs: request bodies are decoded into `request`, `events` are encoded into answers. Exports nothing.

Every module is pure and knows no engine, worker or socket.

- `base`: the roles that an API module fills, the limits of a request
- `chat`: decodes a Chat Completions request, with `chat_types` (the body's fields), `chat_messages`, `chat_tools` and
  `chat_paths` (from paths of errors to the body's fields)
- `chat_encode`: encodes its answer; `chat_answer_types` are the answer's types for `/openapi.json`
- `parse`: `/parse/reasoning` and `/parse/function_call`
- `models`: the models API
- `decoding`, `json_bounds`, `compat`: how every API reads a body, its bounds, and fields of other servers
- `documents`: files of text in a request, as text for a model
- `json_text`: how every API writes JSON
- `errors`, `error_texts`: error envelopes, headers and messages of each API
- `explain`: the answer to `x-smg-explain`
- `operation`, `openapi`: descriptions of routes, and the document at `/openapi.json`
"""
