"""The table of what becomes of each concept before each provider: every cell is asked for, and is what the table says."""

from collections.abc import Callable, Mapping

import pytest
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields
from tests.core.engines.vendors.samples import PLAIN, sample
from tools.providers_page import PAGE, page

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.anthropic import body as anthropic_body
from smg_core.engines.vendors.anthropic import concepts as anthropic
from smg_core.engines.vendors.anthropic.format import MessagesFormat
from smg_core.engines.vendors.bedrock import concepts as bedrock
from smg_core.engines.vendors.bedrock.converse import ConverseFormat
from smg_core.engines.vendors.chat import concepts as azure
from smg_core.engines.vendors.chat.format import ChatFormat
from smg_core.engines.vendors.chat.profiles import CHAT_PROFILES
from smg_core.engines.vendors.concepts import CONCEPTS, ConceptCell
from smg_core.engines.vendors.gemini import body as gemini_body
from smg_core.engines.vendors.gemini import concepts as gemini
from smg_core.engines.vendors.gemini.format import GeminiFormat
from smg_core.engines.vendors.responses import body as responses_body
from smg_core.engines.vendors.responses import concepts as responses
from smg_core.engines.vendors.responses.format import ResponsesFormat
from smg_core.engines.vendors.wire_format import WireFormat
from smg_core.engines.vendors.written_fields import WrittenFields
from smg_core.errors import UnsupportedParameter
from smg_core.request import (
    CustomTool,
    File,
    GenerationRequest,
    Image,
    MediaSource,
    Message,
    ReasoningSettings,
    SchemaFormat,
    Text,
    ToolCall,
)

LIMITS = EnginesConfig()
FORMATS: Mapping[str, tuple[Callable[[], WireFormat], str, Mapping[str, ConceptCell]]] = {
    "anthropic": (MessagesFormat, anthropic.MODEL, anthropic.CELLS),
    "gemini": (GeminiFormat, gemini.MODEL, gemini.CELLS),
    "openai-responses": (ResponsesFormat, responses.MODEL, responses.CELLS),
    "bedrock": (ConverseFormat, bedrock.MODEL, bedrock.CELLS),
    "azure": (lambda: ChatFormat(CHAT_PROFILES["azure"]), azure.MODEL, azure.CELLS),
}
NOT_IN_THE_BODY = frozenset({"metadata", "empty_text"})
"""What the gateway keeps, and what is nothing: exact, and not in the body."""


def test_the_page_is_what_the_cells_say() -> None:
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("kind", FORMATS)
def test_every_concept_has_a_cell(kind: str) -> None:
    assert set(FORMATS[kind][2]) == set(CONCEPTS)


@pytest.mark.sampled(keep=103)
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("concept", CONCEPTS)
def test_every_cell_is_what_the_table_says(kind: str, concept: str) -> None:
    wire, model, cells = FORMATS[kind]
    request, cell = sample(concept, kind, model), cells[concept]
    if cell.how == "refused":
        with pytest.raises(UnsupportedParameter) as refused:
            wire().ask(request, model, LIMITS)
        assert refused.value.param
        assert f"'{refused.value.param}'" in refused.value.message
        return

    asked = wire().ask(request, model, LIMITS)

    assert dict(asked.losses) == ({cell.name: cell.what} if cell.how == "lossy" else {})
    if cell.how == "exact" and concept not in NOT_IN_THE_BODY:
        assert asked.body != wire().ask(PLAIN, model, LIMITS).body


def set_fields(value: object, found: set[tuple[type, str]]) -> None:
    """Which fields of which records are set to something in a request."""
    if isinstance(value, Struct):
        for field in fields(type(value)):
            held = getattr(value, field.name)
            default = field.default if field.default is not NODEFAULT else ...
            if field.default_factory is not NODEFAULT:
                default = field.default_factory()
            if held != default:
                found.add((type(value), field.name))
            set_fields(held, found)
    elif isinstance(value, tuple):
        for each in value:
            set_fields(each, found)


HINTS = {(Image, "detail"), (Text, "cache"), (File, "context"), (CustomTool, "cache"), (CustomTool, "grammar")}
HINTS |= {(CustomTool, "syntax"), (Message, "content_is_text"), (ReasoningSettings, "adaptive")}
HINTS |= {(ReasoningSettings, "between_tools"), (SchemaFormat, "name"), (SchemaFormat, "description")}
HINTS |= {(SchemaFormat, "strict"), (MediaSource, "fault")}
HINTS |= {(CustomTool, "name"), (CustomTool, "description"), (ToolCall, "custom")}
HINTS |= {(GenerationRequest, "own_fields"), (GenerationRequest, "template_arguments")}
HINTS |= {(GenerationRequest, "add_generation_prompt"), (GenerationRequest, "continue_final_message")}
"""Fields of which no concept is made: they are hints, or go with others that are; of the last seven tests of their own tell."""


@pytest.mark.full
@pytest.mark.parametrize(
    "table",
    [anthropic_body.FIELDS, gemini_body.FIELDS, responses_body.FIELDS],
    ids=["anthropic", "gemini", "responses"],
)
def test_every_field_that_is_written_is_in_a_request_that_is_walked(table: WrittenFields) -> None:
    walked: set[tuple[type, str]] = set()
    for kind, (_, model, _) in FORMATS.items():
        for concept in CONCEPTS:
            set_fields(sample(concept, kind, model), walked)

    missing = {
        (record.__name__, name)
        for record, names in table.written.items()
        for name in names
        if (record, name) not in walked | HINTS and name != "cache"
    }
    assert missing == set()
