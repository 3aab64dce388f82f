"""The public APIs: request bodies are decoded into `request`, `events` are encoded into answers. Exports nothing.

Every module is pure and knows no engine, worker or socket.

- `base`: the roles that an API module fills, the limits of a request
- `chat`: decodes a Chat Completions request, with `chat_types` (the body's fields), `chat_messages`, `chat_tools` and
  `chat_paths` (from paths of errors to the body's fields)
- `chat_encode`: encodes its answer; `chat_answer_types` are the answer's types for `/openapi.json`
- `responses` and `responses_encode`, with `responses_types`, `responses_items`, `responses_tools`, `responses_names`,
  `responses_object`, `responses_paths`; `responses_grammar`: the order of its events; `conversations`: kept conversations
- `messages` and `messages_encode`, with `messages_types`, `messages_content`, `messages_tools`, `messages_answer_types`
- `gemini` and `gemini_encode`, with `gemini_types`, `gemini_contents`, `gemini_tools`, `gemini_schema`, `gemini_models`,
  `gemini_answer_types`; `proto_json`: how Google's APIs read JSON
- `completions` and `completions_encode`, with `completions_types`, `completions_answer_types`
- `tokenize`: tokenize and detokenize
- `fields`, `sampling`, `logprobs`: fields that several APIs share; `answer_size`: the memory of an answer that is not streamed
- `parse`: `/parse/reasoning` and `/parse/function_call`
- `models`: the models API
- `decoding`, `json_bounds`, `compat`: how every API reads a body, its bounds, and fields of other servers
- `json_text`: how every API writes JSON
- `errors`, `error_texts`: error envelopes, headers and messages of each API
- `explain`: the answer to `x-smg-explain`
- `operation`, `openapi`: descriptions of routes, and the document at `/openapi.json`
"""
