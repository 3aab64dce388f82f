"""The gateway's needs of a tokenizer and of a chat template.

Protocols only: `Tokenizer` (text to ids), `IncrementalDecoder` (ids to text, never half a character), `PromptTemplate`
(messages to a prompt), and the records they share. All methods are synchronous CPU work: `encode` must not be called with
long text on the event loop. Implementations: huggingface, tiktoken, chat_template; cache wraps any tokenizer. Above: the
pipeline and the server. Below: request, tokens, errors. Knows no engine and no API.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs
from msgspec import Struct

from smg_core.errors import ClientGone
from smg_core.request import Message, ReasoningSettings, Tool, ToolChoice
from smg_core.tokenizer.efforts import Efforts
from smg_core.tokens import TokenIds

__all__ = [
    "EncodeReport",
    "GivenUp",
    "IncrementalDecoder",
    "Prompt",
    "PromptTemplate",
    "SpecialTokens",
    "Tokenizer",
    "left_before_encoded",
]


GivenUp = Callable[[], bool]
"""Returns True when nobody waits for the result any more. May be called from any thread."""


@attrs.frozen
class SpecialTokens:
    """The tokens with a role, as strings.

    `control` holds every string that the tokenizer turns into a special token. `markers` are the tokenizer's other added
    tokens (`<think>` or `<tool_call>` in many vocabularies): each is matched in text as one token, but is shown when
    special tokens are skipped. `named` maps every role that tokenizer_config.json names ("bos_token", "sep_token", ...)
    to its token; chat templates read it under that name.
    """

    bos: str | None = None
    eos: str | None = None
    unk: str | None = None
    pad: str | None = None
    control: frozenset[str] = frozenset()
    markers: frozenset[str] = frozenset()
    named: Mapping[str, str] = attrs.field(factory=dict, hash=False)


class Prompt(Struct, frozen=True):
    """Rendered text, as pieces that joined give the text. No token may reach from one piece into the next: this is how a
    control token spelled out in a user's message stays text. Nearly always there is one piece."""

    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.pieces[0] if len(self.pieces) == 1 else "".join(self.pieces)


class EncodeReport(Struct, frozen=True):
    """A prompt's ids, its length in characters, and how many came from the cache `level` ("" for none)."""

    ids: TokenIds
    characters: int
    cached_characters: int = 0
    level: str = ""


def left_before_encoded() -> ClientGone:
    """The error that encoding raises when `GivenUp` returns True."""
    return ClientGone("The client left before its prompt was encoded.")


class PromptTemplate(Protocol):
    """Writes a conversation as a model's prompt. A Jinja chat template is one (`ChatTemplate`); code may be another."""

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        documents: Sequence[Mapping[str, object]] = (),
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        arguments: Mapping[str, object] | None = None,
        protect_control: bool = True,
        tool_choice: ToolChoice | None = None,
        reasoning: ReasoningSettings | None = None,
        template: str | None = None,
        reminders: bool = False,
    ) -> Prompt:
        """The prompt of a conversation; `ChatTemplate.render` describes the arguments. Raises TemplateFailed if the template
        refuses the messages, UnsupportedParameter for content that the format has no place for, InvalidRequest for
        `arguments` that may not be set."""
        ...

    def tells_budget(self, *, tools: bool) -> bool:
        """Whether the prompt of a conversation with tools, or without, tells the model how many tokens it may reason for."""
        ...

    def efforts(self, *, tools: bool) -> Efforts:
        """The levels of reasoning that the prompt of a conversation with tools, or without, tells the model."""
        ...


class IncrementalDecoder(Protocol):
    """Turns the ids of one choice into text as they arrive. One object per choice, used from one thread."""

    def feed(self, ids: Sequence[int]) -> str:
        """Text that further ids cannot change. Bytes of an unfinished character are held back; bytes that can no longer
        become a character are replaced by U+FFFD."""
        ...

    def feed_each(self, ids: Sequence[int]) -> list[str]:
        """The results of `feed` for each of the ids alone, one after the other."""
        ...

    def finish(self) -> str:
        """The text that was held back. Called once, after the last ids."""
        ...


class Tokenizer(Protocol):
    """A model's tokenizer. Safe to call from several threads."""

    @property
    def vocab_size(self) -> int:
        """Number of ids, added tokens included. An id at or above it crashes engines."""
        ...

    @property
    def special(self) -> SpecialTokens: ...

    @property
    def longest_token(self) -> int:
        """The most characters of text that one token stands for, 0 if there is no such bound. The first read walks over the
        whole vocabulary: not on an event loop."""
        ...

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Ids that end generation, from config.json and generation_config.json together."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool = False, allow_control: bool = True) -> TokenIds:
        """Text to ids. With `allow_control` False, control tokens spelled out in `text` are encoded as ordinary text."""
        ...

    def encode_prompt(self, prompt: Prompt, *, salt: str = "", given_up: GivenUp | None = None) -> EncodeReport:
        """A rendered prompt to ids, using the caches if there are any. No special tokens are added: the template wrote
        them. Prompts of different `salt` (a tenant's name, say) share no cache entry. `given_up` is called between the
        pieces of a prompt; when it returns True, ClientGone is raised."""
        ...

    def recall(self, prompt: Prompt, *, salt: str = "") -> EncodeReport | None:
        """The result of `encode_prompt` if a cache has it; else None. Never encodes: may be called on an event loop."""
        ...

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """All ids of a text to that text."""
        ...

    def decoder(self, *, skip_special_tokens: bool = True) -> IncrementalDecoder:
        """A fresh decoder for one choice."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one id, which may be a part of a character. Unknown ids give b""."""
        ...

    def token_id(self, token: str) -> int | None:
        """The id of a token by its exact string, or None."""
        ...
