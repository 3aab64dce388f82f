"""What the routes of kept responses and conversations take and give, in the words of `/openapi.json`.

Above: `stored`, which has the routes. Below: the protocols' types.
"""

from collections.abc import Mapping

from smg_core.apis.conversations.types import ConversationBody, ItemsBody
from smg_core.json_types import JsonObject
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["STORED"]


def _stored(name: str, summary: str, body: object = None) -> Operation:
    tag = "conversations" if "onversation" in name else "responses"
    return Operation(name, summary, tag, body, (OperationResponse(200, "What is kept, as it is now.", JsonObject),))


STORED: Mapping[tuple[str, str], Operation] = {
    ("GET", "/v1/responses/{id}"): _stored("retrieveResponse", "A response that is kept."),
    ("DELETE", "/v1/responses/{id}"): _stored("deleteResponse", "Forget a response."),
    ("POST", "/v1/responses/{id}/cancel"): _stored("cancelResponse", "End a response that is made in the background."),
    ("GET", "/v1/responses/{id}/input_items"): _stored("listInputItems", "The items of a response's request."),
    ("POST", "/v1/conversations"): _stored("createConversation", "Begin a conversation.", ConversationBody),
    ("GET", "/v1/conversations/{id}"): _stored("retrieveConversation", "A conversation."),
    ("POST", "/v1/conversations/{id}"): _stored("updateConversation", "Change its metadata.", ConversationBody),
    ("DELETE", "/v1/conversations/{id}"): _stored("deleteConversation", "Forget a conversation and its items."),
    ("GET", "/v1/conversations/{id}/items"): _stored("listConversationItems", "The items of a conversation."),
    ("POST", "/v1/conversations/{id}/items"): _stored("createConversationItems", "Put items at its end.", ItemsBody),
    ("GET", "/v1/conversations/{id}/items/{item_id}"): _stored("retrieveConversationItem", "One item."),
    ("DELETE", "/v1/conversations/{id}/items/{item_id}"): _stored("deleteConversationItem", "Take one item out."),
}
"""The routes of what is kept, by method and pattern."""
