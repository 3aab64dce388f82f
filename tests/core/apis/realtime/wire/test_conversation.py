"""What a response reads of a conversation: whatever a client has put where, it is the input of a Responses request."""

from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.realtime.wire.conversation import read_by_model
from smg_core.apis.realtime.wire.items import Item, made_item
from smg_core.apis.realtime.wire.turns import decode_turn
from smg_core.wire.base import Incoming


def message(role: str, text: str = "Hello") -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    return made_item({"id": text, "type": "message", "role": role, "content": [{"type": kind, "text": text}]})


def call(id: str) -> Item:
    return made_item({"id": f"call {id}", "type": "function_call", "call_id": id, "name": "f", "arguments": "{}"})


def output(id: str) -> Item:
    return made_item({"id": f"output {id}", "type": "function_call_output", "call_id": id, "output": f"of {id}"})


def read(*items: Item) -> list[str]:
    return read_by_model(items)[1]


def test_what_the_user_says_while_a_function_runs_is_read_behind_its_output() -> None:
    items = (call("1"), call("2"), message("user", "meanwhile"), output("2"), message("user", "then"), output("1"))
    assert read(*items) == ["call 1", "call 2", "output 2", "output 1", "meanwhile", "then"]


def test_outputs_stay_where_they_are_where_the_user_has_said_nothing_before() -> None:
    items = (call("1"), call("2"), output("2"), output("1"), message("user", "then"))
    assert read(*items) == [item.id for item in items]


def test_an_output_before_its_call_and_a_second_one_are_not_read() -> None:
    assert read(output("1"), call("1"), output("1"), output("1"), message("user", "then")) == [
        "call 1",
        "output 1",
        "then",
    ]


items = st.one_of(
    st.sampled_from(["user", "assistant", "system"]).map(message),
    st.sampled_from("12").map(call),
    st.sampled_from("12").map(output),
)


@given(st.lists(items, min_size=1, max_size=12))
def test_any_order_of_items_is_a_request(given_items: list[Item]) -> None:
    said, _ = read_by_model([message("user"), *given_items])
    body = b'{"model":"m","stream":true,"input":[' + b",".join(said) + b"]}"
    decode_turn(Incoming(body, "resp_1"), "", "")
