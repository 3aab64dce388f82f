"""A tokenizer.json as a `Tokenizer`: text to ids with the GIL released, ids to text incrementally.

Text is encoded by fastokens where it is installed and gives the very ids of `tokenizers` on a built-in sample, else by
`encode_batch_fast`; `Tokenizer.encode` holds the GIL for the whole text and is never called. Nothing is changed on the
shared Tokenizer after loading, so any thread may use it. Above: cache wraps it, loader makes it. Below: vocabulary (the
file's structure), control, stream. Knows no template and no folder layout beyond the two dicts handed in.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from smg_core.errors import InvalidRequest
from smg_core.tokenizer.base import (
    EncodeReport,
    GivenUp,
    IncrementalDecoder,
    Prompt,
    SpecialTokens,
    left_before_encoded,
)
from smg_core.tokenizer.control import ControlScan
from smg_core.tokenizer.proof import proof_texts
from smg_core.tokenizer.stream import BYTE_BASE, ByteDecoder, FallbackDecoder, PieceDecoder, WindowDecoder
from smg_core.tokenizer.vocabulary import Layout, read_layout
from smg_core.tokens import TokenIds

if TYPE_CHECKING:
    import tokenizers

__all__ = ["HuggingFaceTokenizer", "eos_ids", "named_tokens", "special_tokens"]

_BATCH = 1024
"""Pieces of a prompt that are encoded in one go; before each, encoding may be given up."""
_ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def _byte_alphabet() -> dict[str, int]:
    """The 256 printable characters that stand for bytes in byte-level vocabularies (GPT-2's mapping)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    alphabet.update({chr(256 + place): byte for place, byte in enumerate(others)})
    return alphabet


_BYTE_OF = _byte_alphabet()


class _ByteTable(dict[int, bytes]):
    """Ids to bytes, worked out when first asked for; ids outside the vocabulary are b"" and not kept."""

    def __init__(self, make: Callable[[int], bytes], size: int, absent: Iterable[int] = ()) -> None:
        super().__init__(dict.fromkeys(absent, b""))
        self._make, self._size = make, size

    def __missing__(self, token_id: int) -> bytes:
        if not 0 <= token_id < self._size:
            return b""
        made = self[token_id] = self._make(token_id)
        return made


class _TextTable(dict[int, str]):
    """Ids to strings, likewise."""

    def __init__(self, make: Callable[[int], str], size: int, absent: Iterable[int] = ()) -> None:
        super().__init__(dict.fromkeys(absent, ""))
        self._make, self._size = make, size

    def __missing__(self, token_id: int) -> str:
        if not 0 <= token_id < self._size:
            return ""
        made = self[token_id] = self._make(token_id)
        return made


class _Names(Protocol):
    """Ids by name and names by id."""

    def token_to_id(self, token: str, /) -> int | None: ...

    def id_to_token(self, token_id: int, /) -> str | None: ...


class _Encoder(Protocol):
    """Ids of several texts in a row, each encoded for itself."""

    def __call__(self, texts: list[str], add_special_tokens: bool) -> "array[int]": ...


class HuggingFaceTokenizer:
    """Implements `Tokenizer` over one tokenizer.json.

    `backend` is "fastokens" or "tokenizers", and `backend_reason` says why it is not fastokens ("" if it is). `anchors`
    and `anchor_reason` are the layout's: where a text may be cut (see `vocabulary.Layout`).
    """

    def __init__(
        self,
        text: str,
        *,
        tokenizer_config: Mapping[str, Any] | None = None,
        eos_token_ids: Iterable[int] = (),
        fast: bool = True,
        proven_size: int | None = None,
        source: Callable[[], str] | None = None,
    ) -> None:
        """`text` is that of a tokenizer.json, `tokenizer_config` the object of tokenizer_config.json. With `fast`
        False, fastokens is not tried. `proven_size` is the vocabulary's size where it was proven elsewhere that
        fastokens alone will do (`alone`); the reference is then not even loaded. `source` gives the text anew, for a prompt
        that fastokens fails on when the reference was let go; without it the text is kept. Raises ValueError if the file is
        not a tokenizer."""
        self._source = source or (lambda kept=text: kept)  # type: ignore[misc]
        self._role_tokens = tuple(named_tokens(tokenizer_config or {}).values())
        self._quick: Any = None
        self._tokenizer: Any = None
        named = named_tokens(tokenizer_config or {})
        self.promoted = False
        if proven_size is None:
            self._tokenizer = _load(text)
            self.promoted = _promote(self._tokenizer, named.values())
            if self.promoted:
                text = self._tokenizer.to_str()
        else:
            self._quick = _fastokens(text)
        self._names: _Names = self._tokenizer or self._quick
        self._layout: Layout = read_layout(text)
        self._special = special_tokens(self._layout.added, named)
        self._vocab_size = proven_size or max(
            self._tokenizer.get_vocab_size(with_added_tokens=True),
            max((token.id for token in self._layout.added), default=-1) + 1,
        )
        self._hidden = frozenset(token.id for token in self._layout.added if token.special)
        self._eos = frozenset(eos_token_ids) or self._eos_by_name()
        self._encode_all: _Encoder = self._encode_with_tokenizers
        self.backend, self.backend_reason = "tokenizers", "fastokens is switched off"
        self._scan = ControlScan(self._special.control | self._special.markers)
        if self._quick is not None:
            self.backend, self.backend_reason, self._encode_all = "fastokens", "", self._encode_with_fastokens
        elif fast:
            self._try_fastokens(text)
        self._newline = self._encode_ids("\n", False) if self._layout.prefixed else array("I")
        self._start_decoding()
        self._let_go_of_the_reference()

    @property
    def alone(self) -> bool:
        """Whether fastokens does all the work, on the file as it is, and the reference was let go."""
        return self._tokenizer is None and not self.promoted

    # ----------------------------------------------------------------------------------------------------- what it is

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    @property
    def special(self) -> SpecialTokens:
        return self._special

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return self._eos

    @cached_property
    def longest_token(self) -> int:
        names, factor = self._names, self._layout.shrinks
        alphabet = _BYTE_OF if self._layout.decoder == "bytes" else [f"<0x{byte:02X}>" for byte in range(256)]
        if not factor or any(names.token_to_id(each) is None for each in alphabet):
            return 0
        return factor * max(len(names.id_to_token(each) or "") for each in range(self._vocab_size))

    @property
    def anchors(self) -> Mapping[str, int]:
        return self._layout.anchors

    @property
    def anchor_reason(self) -> str:
        return self._layout.anchor_reason

    def token_id(self, token: str) -> int | None:
        found: int | None = self._names.token_to_id(token)
        return found

    def _eos_by_name(self) -> frozenset[int]:
        found = self.token_id(self._special.eos) if self._special.eos else None
        return frozenset() if found is None else frozenset((found,))

    # ------------------------------------------------------------------------------------------------------- encoding

    def encode(self, text: str, *, add_special_tokens: bool = False, allow_control: bool = True) -> TokenIds:
        text = _sound(text)
        if allow_control:
            return TokenIds(self._encode_ids(text, add_special_tokens))
        first, *others = self._scan.pieces(text)
        ids = self._encode_ids(first, add_special_tokens)
        for piece in others:
            ids.extend(self._inside(piece))
        return TokenIds(ids)

    def encode_inside(self, text: str) -> TokenIds:
        """Ids of text that stands behind other text: no dummy space is put before it."""
        return TokenIds(self._inside(_sound(text)))

    def encode_prompt(self, prompt: Prompt, *, salt: str = "", given_up: GivenUp | None = None) -> EncodeReport:
        first, *others = prompt.pieces or ("",)
        ids = self._encode_ids(_sound(first), False)
        for start in range(0, len(others), _BATCH):
            if given_up is not None and given_up():
                raise left_before_encoded()
            batch = others[start : start + _BATCH]
            if self._newline:
                for piece in batch:
                    ids.extend(self._inside(_sound(piece)))
            else:
                ids.extend(self._encode_all([_sound(piece) for piece in batch], False))
        return EncodeReport(TokenIds(ids), sum(map(len, prompt.pieces)))

    def recall(self, prompt: Prompt, *, salt: str = "") -> EncodeReport | None:
        """Nothing is kept here."""
        return None

    def _inside(self, text: str) -> "array[int]":
        if not self._newline:
            return self._encode_ids(text, False)
        # The dummy space goes before a line break put in front, and is taken off with it. Where the break melts into the
        # text ("\n\n" is one token), the space stays: ids that decode to the same text, bar that space.
        ids = self._encode_ids("\n" + text, False)
        size = len(self._newline)
        return ids[size:] if ids[:size] == self._newline else self._encode_ids(text, False)

    def _encode_ids(self, text: str, add_special_tokens: bool) -> "array[int]":
        return self._encode_all([text], add_special_tokens)

    def _encode_with_tokenizers(self, texts: list[str], add_special_tokens: bool) -> "array[int]":
        return _in_a_row(self._tokenizer, texts, add_special_tokens)

    def _encode_with_fastokens(self, texts: list[str], add_special_tokens: bool) -> "array[int]":
        """fastokens' splitting gives up on texts that take it too long, such as some ten million spaces: those are the
        reference's, which is loaded for them alone where it was let go."""
        try:
            with _Panics():
                return _flat(self._quick, texts, add_special_tokens)
        except (ValueError, RuntimeError):
            return _in_a_row(self._tokenizer or self._reference(), texts, add_special_tokens)

    def _reference(self) -> "tokenizers.Tokenizer":
        try:
            reference = _load(self._source())
        except (OSError, ValueError):
            raise _unreadable() from None
        _promote(reference, self._role_tokens)
        return reference

    def _try_fastokens(self, text: str) -> None:
        try:
            quick = _fastokens(text)
        except ImportError:
            self.backend_reason = "fastokens is not installed"
            return
        except (ValueError, RuntimeError, TypeError) as refused:
            self.backend_reason = f"fastokens does not take this tokenizer: {refused}"
            return
        try:
            wrong = self._differs(quick)
        except (ValueError, RuntimeError) as refused:
            wrong = f"fastokens fails on a sample: {refused}"
        self.backend_reason = wrong
        if not wrong:
            self.backend, self._encode_all, self._quick = "fastokens", self._encode_with_fastokens, quick

    def _differs(self, quick: Any) -> str:
        """ "" if `quick` gives the reference's ids on every sample, else which it got wrong."""
        own = self._tokenizer.decode_batch(
            [list(range(start, self._vocab_size, max(1, self._vocab_size // 512))) for start in range(3)],
            skip_special_tokens=False,
        )
        for sample in (*proof_texts(sorted(self._special.control | self._special.markers)), *own):
            for add in (False, True):
                if _flat(quick, [sample], add) != self._encode_with_tokenizers([sample], add):
                    return f"fastokens gives other ids for {sample[:40]!r}"
        return ""

    # ------------------------------------------------------------------------------------------------------- decoding

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        if self._tokenizer is None:
            decoder = self._decoders[skip_special_tokens]()
            return decoder.feed(ids) + decoder.finish()
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
        return text

    def decoder(self, *, skip_special_tokens: bool = True) -> IncrementalDecoder:
        return self._decoders[skip_special_tokens]()

    def token_bytes(self, token_id: int) -> bytes:
        return self._bytes[token_id]

    def _start_decoding(self) -> None:
        """Choose the decoder that fits, prove it on a sample of the vocabulary, and fall back to the window if it does
        not hold."""
        kind = self._layout.decoder
        self._bytes = _ByteTable(self._bytes_of if kind == "bytes" else self._bytes_of_text, self._vocab_size)
        make = {"bytes": self._byte_decoders, "fallback": self._fallback_decoders, "pieces": self._piece_decoders}
        self._decoders = make.get(kind, self._window_decoders)()
        self._decoders_are = kind
        if self._tokenizer is not None and not self._decoders_hold():
            self._decoders_are, self._decoders = "window", self._window_decoders()

    def _let_go_of_the_reference(self) -> None:
        """Where fastokens encodes and bytes decode, nothing asks the reference any more, and it is half of the memory that
        a tokenizer takes. It stays if the two name a single id differently."""
        quick = self._quick
        if quick is None or self._tokenizer is None or self._layout.decoder != "bytes" or self._decoders_are != "bytes":
            return
        reference = self._tokenizer
        if all(quick.id_to_token(each) == reference.id_to_token(each) for each in range(self._vocab_size)):
            self._names, self._tokenizer = quick, None

    def _decoders_hold(self) -> bool:
        step = max(1, self._vocab_size // 256)
        plain = [
            n
            for n in range(0, self._vocab_size, step)
            if self._byte_token(n) is None or self._layout.decoder == "bytes"
        ]
        for skip in (False, True):
            decoder = self._decoders[skip]()
            if decoder.feed(plain) + decoder.finish() != self.decode(plain, skip_special_tokens=skip):
                return False
        return True

    def _byte_decoders(self) -> dict[bool, Callable[[], IncrementalDecoder]]:
        every, shown = self._bytes, _ByteTable(self._bytes.__getitem__, self._vocab_size, self._hidden)
        return {False: lambda: ByteDecoder(every), True: lambda: ByteDecoder(shown)}

    def _fallback_decoders(self) -> dict[bool, Callable[[], IncrementalDecoder]]:
        strip = self._layout.strip
        every = _TextTable(self._later_text, self._vocab_size)
        shown = _TextTable(every.__getitem__, self._vocab_size, self._hidden)
        return {False: lambda: FallbackDecoder(every, strip), True: lambda: FallbackDecoder(shown, strip)}

    def _piece_decoders(self) -> dict[bool, Callable[[], IncrementalDecoder]]:
        every = _TextTable(self._later_text, self._vocab_size)
        shown = _TextTable(every.__getitem__, self._vocab_size, self._hidden)

        def first_shown(token_id: int) -> str | None:
            return None if token_id in self._hidden else self._first_text(token_id)

        return {
            False: lambda: PieceDecoder(self._first_text, every),
            True: lambda: PieceDecoder(first_shown, shown),
        }

    def _window_decoders(self) -> dict[bool, Callable[[], IncrementalDecoder]]:
        def whole(ids: list[int]) -> str:
            return self.decode(ids, skip_special_tokens=False)

        return {False: lambda: WindowDecoder(whole), True: lambda: WindowDecoder(self.decode)}

    def _bytes_of(self, token_id: int) -> bytes:
        """Byte-level: the token's characters through the alphabet; a token with any other character is plain text."""
        token: str | None = self._names.id_to_token(token_id)
        if token is None:
            return b""
        try:
            return bytes([_BYTE_OF[char] for char in token])
        except KeyError:
            return token.encode()

    def _bytes_of_text(self, token_id: int) -> bytes:
        byte = self._byte_token(token_id)
        if byte is not None:
            return bytes((byte,))
        return b"" if self._tokenizer.id_to_token(token_id) is None else self._piece_text(token_id).encode()

    def _byte_token(self, token_id: int) -> int | None:
        """The byte a byte-fallback token (`<0x0A>`) stands for."""
        if self._layout.decoder not in ("fallback", "window"):
            return None
        token: str | None = self._tokenizer.id_to_token(token_id)
        if token is None or len(token) != 6 or not token.startswith("<0x") or not token.endswith(">"):
            return None
        try:
            return int(token[3:5], 16)
        except ValueError:
            return None

    def _later_text(self, token_id: int) -> str:
        byte = self._byte_token(token_id)
        return self._piece_text(token_id) if byte is None else chr(BYTE_BASE + byte)

    def _piece_text(self, token_id: int) -> str:
        """The token's text where it is not the first."""
        token: str | None = self._tokenizer.id_to_token(token_id)
        if token is None:
            return ""
        text: str = self._tokenizer.decoder.decode(["a", token]) if self._tokenizer.decoder else f"a {token}"
        return text[1:]

    def _first_text(self, token_id: int) -> str | None:
        token: str | None = self._tokenizer.id_to_token(token_id)
        if token is None:
            return None
        text: str = self._tokenizer.decoder.decode([token])
        return text


class _Refusals:
    """`tokenizers` reports a bad file as a bare Exception, of no class of its own: exactly that becomes a ValueError."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: object) -> None:
        if kind is Exception:
            raise ValueError(f"not a usable tokenizer.json: {fault}") from fault


class _Panics:
    """A panic in Rust comes as an exception that no `except Exception` catches; it becomes a ValueError."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: object) -> None:
        if kind is not None and kind.__name__ == "PanicException":
            raise ValueError(str(fault)) from None


def _fastokens(text: str) -> Any:
    import fastokens

    return fastokens.Tokenizer.from_json_str(text)


def _flat(quick: Any, texts: list[str], add_special_tokens: bool) -> "array[int]":
    """fastokens' encoder that makes no object per token."""
    flat, _ = quick.encode_batch_flat(texts, add_special_tokens)
    ids = array("I")
    ids.frombytes(flat)
    return ids


def _in_a_row(reference: "tokenizers.Tokenizer", texts: list[str], add_special_tokens: bool) -> "array[int]":
    ids = array("I")
    try:
        with _Panics():
            encodings = reference.encode_batch_fast(texts, add_special_tokens=add_special_tokens)
    except ValueError:
        raise _unreadable() from None
    for encoding in encodings:
        ids.extend(encoding.ids)
    return ids


def _unreadable() -> InvalidRequest:
    """For a text that no implementation at hand can split, such as ten million spaces in a row."""
    return InvalidRequest("The prompt holds text that this model's tokenizer fails on.", param="messages")


def _load(text: str) -> "tokenizers.Tokenizer":
    import tokenizers

    with _Refusals():
        tokenizer = tokenizers.Tokenizer.from_str(text)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _promote(tokenizer: "tokenizers.Tokenizer", named: Iterable[str]) -> bool:
    """Make the tokens that have a role special, as transformers does on loading. Tokens the vocabulary lacks are left
    alone: an id behind its end would crash an engine. True if anything changed."""
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    wanted = [token for token in named if token not in special and tokenizer.token_to_id(token) is not None]
    if wanted:
        import tokenizers

        tokenizer.add_special_tokens([tokenizers.AddedToken(token, normalized=False, special=True) for token in wanted])
    return bool(wanted)


def named_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Role to string, from tokenizer_config.json, where a token is a string or an object with `content`."""
    found = {}
    for role in _ROLES:
        value = config.get(role)
        content = value.get("content") if isinstance(value, Mapping) else value
        if isinstance(content, str):
            found[role] = content
    return found


def special_tokens(added: Iterable[Any], named: Mapping[str, str]) -> SpecialTokens:
    """`SpecialTokens` of added tokens (anything with `content` and `special`) and named roles. Added tokens of white space
    alone (runs of spaces in some vocabularies) are neither control nor marker."""
    added = [token for token in added if token.content.strip()]
    return SpecialTokens(
        bos=named.get("bos_token"),
        eos=named.get("eos_token"),
        unk=named.get("unk_token"),
        pad=named.get("pad_token"),
        control=frozenset(token.content for token in added if token.special),
        markers=frozenset(token.content for token in added if not token.special),
        named=dict(named),
    )


def eos_ids(*configs: Mapping[str, Any]) -> frozenset[int]:
    """Every eos_token_id of these objects (config.json, generation_config.json), each an int or a list."""
    found: set[int] = set()
    for config in configs:
        text_config = config.get("text_config")
        for part in (config, text_config if isinstance(text_config, Mapping) else {}):
            value = part.get("eos_token_id")
            values = value if isinstance(value, list) else [value]
            found.update(one for one in values if isinstance(one, int) and not isinstance(one, bool))
    return frozenset(found)


def _sound(text: str) -> str:
    """The text with lone surrogates, which no UTF-8 encoder takes, replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
