"""What the gateway needs of a tokenizer.

Roles only: `Tokenizer` (text to ids), `IncrementalDecoder` (ids to text, never half a character), and the records they
share. Everything here is synchronous CPU work; whoever calls `encode` on long text does so off the event loop.
Implementations: huggingface, tiktoken; cache wraps any of them. Knows no engine, no API and no template.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from smg_core.errors import ClientGone
from smg_core.request import Message, ReasoningSettings, Tool, ToolChoice
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
"""Whether nobody waits for the work any more. May be asked from any thread."""


@attrs.frozen
class SpecialTokens:
    """The tokens with a role, as strings; `control` is every string the tokenizer would turn into a special token.

    `markers` are the tokenizer's other added tokens (`<think>` or `<tool_call>` in many vocabularies): matched in text as
    one token each, but shown when special tokens are skipped. `named` holds every role that tokenizer_config.json names
    ("bos_token", "sep_token", ...), under the name a chat template reads it by.
    """

    bos: str | None = None
    eos: str | None = None
    unk: str | None = None
    pad: str | None = None
    control: frozenset[str] = frozenset()
    markers: frozenset[str] = frozenset()
    named: Mapping[str, str] = attrs.field(factory=dict, hash=False)


@attrs.frozen
class Prompt:
    """Rendered text. `pieces` joined are the text; a boundary between two pieces is a place where no token may form,
    which is how a control token spelled out in a user's message stays text. Nearly always one piece."""

    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.pieces[0] if len(self.pieces) == 1 else "".join(self.pieces)


@attrs.frozen
class EncodeReport:
    """Ids, and how many of the prompt's characters were answered by which cache ("l0", "l1" or "")."""

    ids: TokenIds
    characters: int
    cached_characters: int = 0
    level: str = ""


def left_before_encoded() -> ClientGone:
    """What encoding raises when it is given up."""
    return ClientGone("The client left before its prompt was encoded.")


class PromptTemplate(Protocol):
    """What writes a conversation as a model's prompt: a chat template, or code for a family whose format is no template."""

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        documents: Sequence[Mapping[str, Any]] = (),
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        arguments: Mapping[str, Any] | None = None,
        protect_control: bool = True,
        tool_choice: ToolChoice | None = None,
        reasoning: ReasoningSettings | None = None,
        template: str | None = None,
    ) -> Prompt:
        """The prompt. Raises TemplateFailed where the messages are refused, UnsupportedParameter for content that has no place
        in the format, InvalidRequest for arguments that are no variables."""
        ...


class IncrementalDecoder(Protocol):
    """Ids of one choice to text, as they come."""

    def feed(self, ids: Sequence[int]) -> str:
        """The text that is now certain. Bytes of an unfinished character are kept back; lone surrogates and invalid
        bytes become U+FFFD when they can no longer be completed."""
        ...

    def finish(self) -> str:
        """What was kept back."""
        ...


class Tokenizer(Protocol):
    """A model's tokenizer. Safe to call from several threads."""

    @property
    def vocab_size(self) -> int:
        """Number of ids, added tokens included: an id at or above it crashes engines."""
        ...

    @property
    def special(self) -> SpecialTokens: ...

    @property
    def longest_token(self) -> int:
        """How many characters of text one token stands for at most, 0 where there is no such bound. Measured when it is first
        asked for, which takes as long as walking over the vocabulary: not on an event loop."""
        ...

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Ids that end generation, from config.json and generation_config.json together."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool = False, allow_control: bool = True) -> TokenIds:
        """Text to ids. With `allow_control` False, control tokens spelled in `text` become ordinary text ids."""
        ...

    def encode_prompt(self, prompt: Prompt, *, salt: str = "", given_up: GivenUp | None = None) -> EncodeReport:
        """A rendered prompt to ids, through whatever caches there are. No special tokens are added: the template wrote
        them. Prompts of different `salt` (a tenant, say) never meet in a cache, not even to save time. `given_up` is asked
        between the pieces of a prompt whether anybody still waits; raises ClientGone when nobody does."""
        ...

    def recall(self, prompt: Prompt, *, salt: str = "") -> EncodeReport | None:
        """What `encode_prompt` would return, if that is known without any encoding; else None, at once."""
        ...

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Ids to text at once."""
        ...

    def decoder(self, *, skip_special_tokens: bool = True) -> IncrementalDecoder:
        """A fresh decoder for one choice."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes one id stands for; part of a character is possible. Unknown ids give b""."""
        ...

    def token_id(self, token: str) -> int | None:
        """The id of a token by its exact string, or None."""
        ...
