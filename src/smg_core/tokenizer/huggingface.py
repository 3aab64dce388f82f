"""A tokenizer.json as a `Tokenizer`: text to ids with the GIL released, ids to text as they arrive.

Two libraries do the work: `tokenizers`, called the reference here, and fastokens, which is faster and takes less memory.
Text is encoded by fastokens if it is installed and gives the reference's ids on a built-in sample (`proof`), else by the
reference's `encode_batch_fast`; its `encode` holds the GIL for the whole text and is never called. Nothing changes after
loading, so several threads may use one tokenizer. Above: loader makes it, cache wraps it. Below: vocabulary (the file's
structure), proof, control, stream. It opens no files and knows no templates.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

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
from smg_core.tokenizer.vocabulary import TokenizerLayout, read_layout
from smg_core.tokens import TokenIds

if TYPE_CHECKING:
    import tokenizers

__all__ = ["HuggingFaceTokenizer", "eos_ids", "named_tokens", "special_tokens"]

_BATCH = 1024
"""Pieces of a prompt that are encoded at once; `given_up` is called before each batch."""
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
    """Ids to bytes, made by `make` at the first look-up; ids outside the vocabulary give b"" and are not kept."""

    def __init__(self, make: Callable[[int], bytes], size: int, absent: Iterable[int] = ()) -> None:
        super().__init__(dict.fromkeys(absent, b""))
        self._make, self._size = make, size

    def __missing__(self, token_id: int) -> bytes:
        if not 0 <= token_id < self._size:
            return b""
        made = self[token_id] = self._make(token_id)
        return made


class _TextTable(dict[int, str]):
    """Ids to strings, in the same way."""

    def __init__(self, make: Callable[[int], str], size: int, absent: Iterable[int] = ()) -> None:
        super().__init__(dict.fromkeys(absent, ""))
        self._make, self._size = make, size

    def __missing__(self, token_id: int) -> str:
        if not 0 <= token_id < self._size:
            return ""
        made = self[token_id] = self._make(token_id)
        return made


class _Names(Protocol):
    """What looks up the ids of tokens by their strings, and the strings by their ids."""

    def token_to_id(self, token: str, /) -> int | None: ...

    def id_to_token(self, token_id: int, /) -> str | None: ...


class _Fastokens(_Names, Protocol):
    """What is used of fastokens' `Tokenizer`."""

    def encode_batch_flat(self, texts: list[str], add_special_tokens: bool, /) -> tuple[bytes, object]: ...


class _Added(Protocol):
    """What is read of an added token."""

    @property
    def content(self) -> str: ...

    @property
    def special(self) -> bool: ...


class HuggingFaceTokenizer:
    """Implements `Tokenizer` over one tokenizer.json.

    `backend` is "fastokens" or "tokenizers"; `backend_reason` says why it is not fastokens ("" if it is). `promoted` says
    whether tokens had to be made special that the file does not call special. `anchors` and `anchor_reason` say where a
    text may be cut (see `vocabulary.Layout`).
    """

    def __init__(
        self,
        text: str,
        *,
        tokenizer_config: Mapping[str, object] | None = None,
        eos_token_ids: Iterable[int] = (),
        fast: bool = True,
        proven_size: int | None = None,
        source: Callable[[], str] | None = None,
    ) -> None:
        """`text` is the text of a tokenizer.json, `tokenizer_config` the object of tokenizer_config.json. With `fast`
        False, fastokens is not tried. `proven_size` is the vocabulary's size if `prover` has shown that fastokens alone is
        enough (`alone`); the reference is then not loaded. `source` returns the text again: it is read when fastokens
        fails on a prompt and the reference is no longer in memory. Without `source` the text itself is kept. Raises
        ValueError if the text is not a usable tokenizer.json."""
        self._source = source or (lambda kept=text: kept)  # type: ignore[misc]
        named = named_tokens(tokenizer_config or {})
        self._role_tokens = tuple(named.values())
        self._quick: _Fastokens | None = None
        self._tokenizer: tokenizers.Tokenizer | None = None
        self._names: _Names
        self.promoted = False
        if proven_size is None:
            self._names = self._tokenizer = reference = _load(text)
            self.promoted = _promote(reference, self._role_tokens)
            if self.promoted:
                text = reference.to_str()
            size = reference.get_vocab_size(with_added_tokens=True)
        else:
            self._names = self._quick = _fastokens(text)
            size = proven_size
        self._layout: TokenizerLayout = read_layout(text)
        self._special = special_tokens(self._layout.added, named)
        self._vocab_size = max(size, max((token.id for token in self._layout.added), default=-1) + 1)
        self._hidden = frozenset(token.id for token in self._layout.added if token.special)
        self._eos = frozenset(eos_token_ids) or self._eos_by_name()
        self.backend, self.backend_reason = "tokenizers", "fastokens is switched off"
        self._scan = ControlScan(self._special.control | self._special.markers)
        if self._quick is not None:
            self.backend, self.backend_reason = "fastokens", ""
        elif fast:
            self._try_fastokens(text)
        self._newline = self._encode_ids("\n", False) if self._layout.prefixed else array("I")
        self._start_decoding()
        self._drop_unused_reference()

    @property
    def alone(self) -> bool:
        """Whether fastokens does all the work on the unchanged file, and the reference was dropped."""
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
        return self._names.token_to_id(token)

    def _eos_by_name(self) -> frozenset[int]:
        found = self.token_id(self._special.eos) if self._special.eos else None
        return frozenset() if found is None else frozenset((found,))

    # ------------------------------------------------------------------------------------------------------- encoding

    def encode(self, text: str, *, add_special_tokens: bool = False, allow_control: bool = True) -> TokenIds:
        text = _repaired(text)
        if allow_control:
            return TokenIds(self._encode_ids(text, add_special_tokens))
        first, *others = self._scan.pieces(text)
        ids = self._encode_ids(first, add_special_tokens)
        for piece in others:
            ids.extend(self._inside(piece))
        return TokenIds(ids)

    def encode_inside(self, text: str) -> TokenIds:
        """Ids of text that follows other text: no dummy space is put before it."""
        return TokenIds(self._inside(_repaired(text)))

    def encode_prompt(self, prompt: Prompt, *, salt: str = "", given_up: GivenUp | None = None) -> EncodeReport:
        first, *others = prompt.pieces or ("",)
        ids = self._encode_ids(_repaired(first), False)
        for start in range(0, len(others), _BATCH):
            if given_up is not None and given_up():
                raise left_before_encoded()
            batch = others[start : start + _BATCH]
            if self._newline:
                for piece in batch:
                    ids.extend(self._inside(_repaired(piece)))
            else:
                ids.extend(self._encode_all([_repaired(piece) for piece in batch], False))
        return EncodeReport(TokenIds(ids), sum(map(len, prompt.pieces)))

    def recall(self, prompt: Prompt, *, salt: str = "") -> EncodeReport | None:
        """Always None: this tokenizer keeps no prompts."""
        return None

    def _inside(self, text: str) -> "array[int]":
        if not self._newline:
            return self._encode_ids(text, False)
        # A line break is put in front, so that the dummy space comes before it and both are removed together. If the
        # break becomes one token with the text ("\n\n"), the dummy space stays.
        ids = self._encode_ids("\n" + text, False)
        size = len(self._newline)
        return ids[size:] if ids[:size] == self._newline else self._encode_ids(text, False)

    def _encode_ids(self, text: str, add_special_tokens: bool) -> "array[int]":
        return self._encode_all([text], add_special_tokens)

    def _encode_all(self, texts: list[str], add_special_tokens: bool) -> "array[int]":
        """Encode each text by itself; the result is the ids of all texts one after the other. fastokens gives up on texts
        that take it too long to split, such as ten million spaces; the reference encodes those."""
        if self._quick is not None:
            with suppress(ValueError, RuntimeError), _Panics():
                return _encode_flat(self._quick, texts, add_special_tokens)
        return _encode_reference(self._reference(), texts, add_special_tokens)

    def _reference(self) -> "tokenizers.Tokenizer":
        """The reference, loaded again for this one call if it was dropped. Raises InvalidRequest if that fails."""
        if self._tokenizer is not None:
            return self._tokenizer
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
            wrong = self._difference(quick)
        except (ValueError, RuntimeError) as refused:
            wrong = f"fastokens fails on a sample: {refused}"
        self.backend_reason = wrong
        if not wrong:
            self.backend, self._quick = "fastokens", quick

    def _difference(self, quick: _Fastokens) -> str:
        """The first sample for which `quick` gives other ids than the reference, as a sentence; "" if there is none."""
        reference = self._reference()
        own = reference.decode_batch(
            [list(range(start, self._vocab_size, max(1, self._vocab_size // 512))) for start in range(3)],
            skip_special_tokens=False,
        )
        for sample in (*proof_texts(sorted(self._special.control | self._special.markers)), *own):
            for add in (False, True):
                if _encode_flat(quick, [sample], add) != _encode_reference(reference, [sample], add):
                    return f"fastokens gives other ids for {sample[:40]!r}"
        return ""

    # ------------------------------------------------------------------------------------------------------- decoding

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        if self._tokenizer is None:
            decoder = self._decoders[skip_special_tokens]()
            return decoder.feed(ids) + decoder.finish()
        with _Panics():
            return self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def decoder(self, *, skip_special_tokens: bool = True) -> IncrementalDecoder:
        return self._decoders[skip_special_tokens]()

    def token_bytes(self, token_id: int) -> bytes:
        return self._bytes[token_id]

    def _start_decoding(self) -> None:
        """Choose the decoder for the vocabulary and compare it with the reference on a sample; if they differ, use the
        window decoder, which asks the reference."""
        kind = self._layout.decoder
        self._bytes = _ByteTable(self._bytes_of if kind == "bytes" else self._bytes_of_text, self._vocab_size)
        make = {"bytes": self._byte_decoders, "fallback": self._fallback_decoders, "pieces": self._piece_decoders}
        self._decoders = make.get(kind, self._window_decoders)()
        self._decoders_are = kind
        if self._tokenizer is not None and not self._decoders_hold():
            self._decoders_are, self._decoders = "window", self._window_decoders()

    def _drop_unused_reference(self) -> None:
        """Free the reference, half of a tokenizer's memory, if fastokens encodes and the byte table decodes: then nothing
        uses it any more. It stays if fastokens gives any id another string."""
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
        every, visible = self._bytes, _ByteTable(self._bytes.__getitem__, self._vocab_size, self._hidden)
        return {False: lambda: ByteDecoder(every), True: lambda: ByteDecoder(visible)}

    def _fallback_decoders(self) -> dict[bool, Callable[[], IncrementalDecoder]]:
        strip = self._layout.strip
        every = _TextTable(self._later_text, self._vocab_size)
        visible = _TextTable(every.__getitem__, self._vocab_size, self._hidden)
        return {False: lambda: FallbackDecoder(every, strip), True: lambda: FallbackDecoder(visible, strip)}

    def _piece_decoders(self) -> dict[bool, Callable[[], IncrementalDecoder]]:
        every = _TextTable(self._later_text, self._vocab_size)
        visible = _TextTable(every.__getitem__, self._vocab_size, self._hidden)

        def first_visible(token_id: int) -> str | None:
            return None if token_id in self._hidden else self._first_text(token_id)

        return {
            False: lambda: PieceDecoder(self._first_text, every),
            True: lambda: PieceDecoder(first_visible, visible),
        }

    def _window_decoders(self) -> dict[bool, Callable[[], IncrementalDecoder]]:
        def whole(ids: list[int]) -> str:
            return self.decode(ids, skip_special_tokens=False)

        return {False: lambda: WindowDecoder(whole), True: lambda: WindowDecoder(self.decode)}

    def _bytes_of(self, token_id: int) -> bytes:
        """A token of a byte-level vocabulary: each character stands for a byte. A token with a character that stands for
        none is plain text."""
        token = self._names.id_to_token(token_id)
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
        return self._piece_text(token_id).encode()

    def _byte_token(self, token_id: int) -> int | None:
        """The byte that a byte-fallback token (`<0x0A>`) stands for, or None."""
        if self._layout.decoder not in ("fallback", "window"):
            return None
        token = self._names.id_to_token(token_id)
        if token is None or len(token) != 6 or not token.startswith("<0x") or not token.endswith(">"):
            return None
        try:
            return int(token[3:5], 16)
        except ValueError:
            return None

    def _later_text(self, token_id: int) -> str:
        """The token's text in the tables of `FallbackDecoder` and `PieceDecoder`."""
        byte = self._byte_token(token_id)
        return self._piece_text(token_id) if byte is None else chr(BYTE_BASE + byte)

    def _piece_text(self, token_id: int) -> str:
        """The token's text if it is not the first of a text; "" for unknown ids."""
        token = self._names.id_to_token(token_id)
        return "" if token is None else self._decode_tokens("a", token)[1:]

    def _first_text(self, token_id: int) -> str | None:
        """The token's text if it is the first of a text; None for unknown ids."""
        token = self._names.id_to_token(token_id)
        return None if token is None else self._decode_tokens(token)

    def _decode_tokens(self, *tokens: str) -> str:
        decoder = self._reference().decoder
        with _Panics():
            return decoder.decode(list(tokens)) if decoder else " ".join(tokens)


class _Refusals:
    """Turns a plain Exception, which `tokenizers` raises for a bad file, into a ValueError; other errors pass."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: object) -> None:
        if kind is Exception:
            raise ValueError(f"not a usable tokenizer.json: {fault}") from fault


class _Panics:
    """Turns a panic in Rust, an exception that `except Exception` does not catch, into a ValueError."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: object) -> None:
        if kind is not None and kind.__name__ == "PanicException":
            raise ValueError(str(fault)) from None


def _fastokens(text: str) -> _Fastokens:
    import fastokens

    quick: _Fastokens = fastokens.Tokenizer.from_json_str(text)
    return quick


def _encode_flat(quick: _Fastokens, texts: list[str], add_special_tokens: bool) -> "array[int]":
    """Encode with fastokens, without making an object for each token."""
    flat, _ = quick.encode_batch_flat(texts, add_special_tokens)
    ids = array("I")
    ids.frombytes(flat)
    return ids


def _encode_reference(reference: "tokenizers.Tokenizer", texts: list[str], add_special_tokens: bool) -> "array[int]":
    """Encode with the reference. Raises InvalidRequest for a text that it cannot split."""
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
    """The error for a text that neither library can split, such as ten million spaces in a row."""
    return InvalidRequest("The prompt holds text that this model's tokenizer fails on.", param="messages")


def _load(text: str) -> "tokenizers.Tokenizer":
    import tokenizers

    with _Refusals():
        tokenizer = tokenizers.Tokenizer.from_str(text)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _promote(tokenizer: "tokenizers.Tokenizer", named: Iterable[str]) -> bool:
    """Make the tokens that have a role special, as transformers does when it loads a file. Tokens that the vocabulary lacks
    are not added: an engine would crash on an id behind its end. Returns whether anything changed."""
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    wanted = [token for token in named if token not in special and tokenizer.token_to_id(token) is not None]
    if wanted:
        import tokenizers

        tokenizer.add_special_tokens([tokenizers.AddedToken(token, normalized=False, special=True) for token in wanted])
    return bool(wanted)


def named_tokens(config: Mapping[str, object]) -> dict[str, str]:
    """Roles ("bos_token", ...) to tokens, from tokenizer_config.json; a token there is a string or an object with
    `content`."""
    found = {}
    for role in _ROLES:
        value = config.get(role)
        content = value.get("content") if isinstance(value, Mapping) else value
        if isinstance(content, str):
            found[role] = content
    return found


def special_tokens(added: Iterable[_Added], named: Mapping[str, str]) -> SpecialTokens:
    """`SpecialTokens` of a vocabulary's added tokens and its roles (`named_tokens`). Added tokens of white space alone (runs
    of spaces in some vocabularies) are neither control tokens nor markers."""
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


def eos_ids(*configs: Mapping[str, object]) -> frozenset[int]:
    """Every `eos_token_id` in the objects of config.json and generation_config.json; each is an int or a list."""
    found: set[int] = set()
    for config in configs:
        text_config = config.get("text_config")
        for part in (config, text_config if isinstance(text_config, Mapping) else {}):
            value = part.get("eos_token_id")
            values = value if isinstance(value, list) else [value]
            found.update(one for one in values if isinstance(one, int) and not isinstance(one, bool))
    return frozenset(found)


def _repaired(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot hold, replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
