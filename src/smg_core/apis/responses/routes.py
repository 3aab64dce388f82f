"""The routes of what is kept: responses and conversations, by their ids (edge).

Above: app.generating_routes puts the routes into the table. Below: the handlers.
"""

from smg_core.apis.conversations.routes import Conversations
from smg_core.apis.responses.stored import StoredResponses
from smg_core.apis.responses.stored_operations import STORED
from smg_core.apis.responses.wire.decode import ResponsesRequest
from smg_core.background.api import BackgroundApi
from smg_core.background.service import Background
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.routes import Route
from smg_core.serving.services import Services

__all__ = ["stored_routes"]

_RESPONSE = "/v1/responses/{id}"
_CONVERSATION = "/v1/conversations/{id}"
_ITEM = "/v1/conversations/{id}/items/{item_id}"
_READ = frozenset(("POST", pattern) for pattern in ("/v1/conversations", _CONVERSATION, f"{_CONVERSATION}/items"))
"""The routes that read a body."""


def stored_routes(
    services: Services, background: Background, api: BackgroundApi[ResponsesRequest]
) -> tuple[Route[Endpoint], ...]:
    """The routes, over `gateway`; `background` has what is made there, by the row `api`."""
    responses, conversations = StoredResponses(services, background, api), Conversations(services)
    rows: tuple[tuple[str, str, Handler], ...] = (
        ("GET", _RESPONSE, responses.retrieve),
        ("DELETE", _RESPONSE, responses.delete),
        ("POST", f"{_RESPONSE}/cancel", responses.cancel),
        ("GET", f"{_RESPONSE}/input_items", responses.input_items),
        ("POST", "/v1/conversations", conversations.create),
        ("GET", _CONVERSATION, conversations.retrieve),
        ("POST", _CONVERSATION, conversations.update),
        ("DELETE", _CONVERSATION, conversations.delete),
        ("GET", f"{_CONVERSATION}/items", conversations.items),
        ("POST", f"{_CONVERSATION}/items", conversations.add),
        ("GET", _ITEM, conversations.item),
        ("DELETE", _ITEM, conversations.delete_item),
    )
    return tuple(
        Route(
            method,
            pattern,
            Endpoint(
                handler,
                "conversations" if pattern.startswith("/v1/conversations") else "responses",
                reads_json=(method, pattern) in _READ,
                about=STORED[method, pattern],
            ),
        )
        for method, pattern, handler in rows
    )
