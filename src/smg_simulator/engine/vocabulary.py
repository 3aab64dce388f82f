"""The embedded engine's tokenizer, and the numbers of its model.

Wraps the `tokenizers` library, with a bounded cache of encoded texts. Pure: the server reads the files and passes in their
text. Above: engine.engine.
"""

import json
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache

from tokenizers import Tokenizer

__all__ = ["Vocabulary"]

_LONGEST_REMEMBERED = 2048  # characters; replies are shorter, and a prompt is not worth the room


@lru_cache(maxsize=2)
def _tokenizer(text: str) -> Tokenizer:
    """Engines of one model in one process share its tokenizer, which nobody changes."""
    return Tokenizer.from_str(text)


class Vocabulary:
    """A model's tokenizer and numbers, from the texts of its tokenizer.json, config.json and generation_config.json.

    `remember` bounds how many short texts have their ids cached. `sees`: the model takes pictures, of which `merge` squared
    patches become one token. `hears`: it takes recordings, which have `mels` mel bands (None: not stated).
    """

    def __init__(self, tokenizer: str, config: str = "{}", generation: str = "{}", *, remember: int = 4096) -> None:
        self._tokenizer = _tokenizer(tokenizer)
        self._remember = remember
        self._known: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self.config = json.loads(config)
        self.generation = json.loads(generation)
        self.size: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self.eos_ids = self._eos_ids()
        self.model_type: str = self.config.get("model_type", "")
        self.architectures: tuple[str, ...] = tuple(self.config.get("architectures") or ())
        vision = self.config.get("vision_config")
        self.sees = isinstance(vision, dict)
        self.anchor: int | None = self.config.get("image_token_id", self.config.get("image_token_index"))
        self.merge: int = (vision or {}).get("spatial_merge_size") or 2
        audio = self.config.get("audio_config") or self.config.get("audio_processor")
        self.hears = isinstance(audio, dict) or self.model_type == "whisper"
        self.kinds = (("image", "video") if self.sees else ()) + (("audio",) if self.hears else ())
        self.mels: int | None = (audio or self.config).get("num_mel_bins")
        self.context_length: int = self.config.get("max_position_embeddings") or 32768

    def _eos_ids(self) -> tuple[int, ...]:
        """The ids of both files, each once; replies end with the first."""
        found: list[int] = []
        for value in (self.config.get("eos_token_id"), self.generation.get("eos_token_id")):
            found += value if isinstance(value, list) else [] if value is None else [value]
        return tuple(dict.fromkeys(found))

    def encode(self, text: str) -> tuple[int, ...]:
        """The ids of `text`. No special tokens are added; those in the text are recognised."""
        if (ids := self._known.get(text)) is not None:
            self._known.move_to_end(text)
            return ids
        ids = tuple(self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids)
        if len(text) <= _LONGEST_REMEMBERED:
            self._known[text] = ids
            if len(self._known) > self._remember:
                self._known.popitem(last=False)
        return ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of `ids`."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
        return text
