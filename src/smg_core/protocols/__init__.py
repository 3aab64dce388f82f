"""The public APIs on the wire: bodies in, events out, and what is refused in between.

Pure rooms: they know the vocabulary, no engine, no worker and no socket. `chat` and `chat_encode` are Chat Completions;
`models`, `errors` and `explain` serve every API.
"""
