"""The two-level cache around a tokenizer of one's own: each turn of a chat encodes only what is new.

python examples/own_tokenizer.py
"""

from smg_core.tokenizer import CachedTokenizer, Prompt, StopMatcher


class Bytes:
    """A vocabulary of the 256 bytes and two special tokens."""

    vocab_size = 258
    special_tokens = {"<|user|>": 256, "<|model|>": 257}  # noqa: RUF012

    def encode(self, text: str) -> list[int]:
        print("encodes", repr(text))
        return list(text.encode())

    def piece(self, token_id: int) -> bytes:
        return bytes([token_id])


tokenizer = CachedTokenizer(Bytes(), l1_characters=16)
first = "<|user|>What is seven times six?<|model|>"
second = first + "Forty-two.<|user|>And times five?<|model|>"
for prompt in (first, second, second):
    report = tokenizer.encode_prompt(Prompt((prompt,)))
    print(f"{len(report.ids)} ids, {report.cached_characters} of {report.characters} characters from the cache")

decoder, stops = tokenizer.decoder(), StopMatcher(("END",))
for token_id in tokenizer.encode("Grüße END and more"):
    text, stopped = stops.feed(decoder.feed([token_id]))
    print(text, end="\n" if stopped else "")
    if stopped:
        break
