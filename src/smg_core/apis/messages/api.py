"""The row of the Messages API.

Apart from `apis`, since its flow is one of its own. Above: app.generating_routes, apis.messages.count_tokens. Below: the
protocol, the flow.
"""

from smg_core.apis.messages.decode import MessagesRequest, decode_messages
from smg_core.apis.messages.encode import MessagesStreamEncoder, MessagesWholeEncoder
from smg_core.apis.messages.flow import respond_to_messages
from smg_core.serving.api import Api
from smg_core.wire.errors import anthropic_error, anthropic_status

__all__ = ["MESSAGES"]

MESSAGES: Api[MessagesRequest] = Api(
    name="messages",
    id_prefix="req_",
    decode=decode_messages,
    flow=respond_to_messages,
    stream=lambda decoded, _: MessagesStreamEncoder(decoded),
    whole=lambda decoded, _: MessagesWholeEncoder(decoded),
    error=anthropic_error,
    status=anthropic_status,
    id_header=b"request-id",
    limit_headers="anthropic",
)
