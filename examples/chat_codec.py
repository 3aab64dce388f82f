"""OpenAI's Chat Completions without a gateway: a body becomes a record, and events become server-sent events.

python examples/chat_codec.py
"""

from smg_core.apis.chat import (
    ChatStreamEncoder,
    Done,
    Finished,
    Incoming,
    SmgError,
    Started,
    TextDelta,
    TextEnd,
    Usage,
    decode_chat,
    openai_error,
)

BODY = b'{"model": "echo", "stream": true, "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}'

request = decode_chat(Incoming(BODY, request_id="chatcmpl-1"))
asked = request.generation
print(asked.model, asked.sampling.max_tokens, asked.messages[0])

encoder = ChatStreamEncoder(request, created=1_700_000_000, response_id=asked.id)
print(encoder.encode([Started(3, 0, asked.model), TextDelta(0, "Hello"), TextDelta(0, " to you")]).decode(), end="")
print(encoder.encode([TextEnd(0), Finished(0, "stop"), Usage(3, 3), Done()]).decode(), end="")

try:
    decode_chat(Incoming(BODY.replace(b"9", b"-9"), request_id="chatcmpl-2"))
except SmgError as error:
    print(error.status, openai_error(error).decode())
