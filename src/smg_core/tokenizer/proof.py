"""Texts on which fastokens must give the reference's ids before it replaces the reference.

Chosen for what encoders get wrong: scripts with and without spaces, combining marks and both normal forms, emoji
sequences, every kind of white space in runs, digits in long and mixed groups, apostrophes, control characters, long
repeats of one character or word, code, and the vocabulary's own control tokens with and without neighbours. Constants
only; knows no encoder. Above: huggingface.
"""

from collections.abc import Sequence

__all__ = ["proof_texts"]

_PLAIN = (
    "",
    " ",
    "a",
    "The quick brown fox jumps over the lazy dog. It's the dogs' day, they'll say; we'VE seen THEY'RE HERE!",
    "  two leading, and trailing  \n\n\n\tthen tabs\t\t \r\n carriage \r alone\x0b\x0c\x85\u2028\u2029end   ",
    "\u00a0no-break\u2003em\u3000wide\u200bzero\u202fnarrow\ufeffbom\u00ad soft",
    "1 12 123 1234 12345 3.14159 1,000,000 0x1F 1e-9 ½ ² Ⅷ ٣٤٥ १२३ 一二三 2026-11-21T02:30:23Z",
    "Ελληνικά Русский Українська עברית العربية فارسی हिन्दी தமிழ் ไทย ភាសាខ្មែរ မြန်မာ ქართული հայերեն አማርኛ ᏣᎳᎩ",
    "日本語のテキスト。漢字とカナとﾊﾝｶｸ 中文文本，没有空格 한국어 텍스트 조합형 \u1112\u1161\u11ab Tiếng Việt",
    "e\u0301 \u00e9 a\u030a\u0327 \u1e9b\u0323 \ufb01 ﬀ Å \u212b \u2460 \uff21\uff22 \u0130 ı ß ẞ ς Σ",
    "👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 1️⃣ ☺️ 🫠 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𠜎 \U000e0067",
    "\x00\x01\x1b[31mred\x7f\ufffd\ufdd0\ue000\U0010ffff",
    "def f(x: int) -> str:\n    return f'{x!r:>8}'  # comment\n\n\nclass A:\n\tpass\n{}[]();;==!=<=>=&&||->::\\n",
    '{"name": "get_weather", "arguments": {"city": "Zürich", "units": null, "n": [1, 2.5, -3e10]}}\n',
    '<div class="x">&amp; <br/></div> <| |> <|not a token|> [INST] [/INST] <s> </s> <pad> ▁▁ Ġ Ċ ##ing',
    "https://example.org/a/b?c=d&e=%20#frag user@example.com C:\\dir\\file.txt ~/.config",
    "supercalifragilisticexpialidocious antidisestablishmentarianism Donaudampfschifffahrtsgesellschaft",
    "A" * 700 + " " * 300 + "ab" * 400 + "\n" * 200 + "7" * 333 + "é" * 150 + "!" * 90 + "中" * 120,
    "ha " * 400 + "word" * 200 + " \n" * 150 + "\t " * 100,
)


def proof_texts(control: Sequence[str]) -> list[str]:
    """The fixed texts, and texts made with up to 24 of the vocabulary's control tokens."""
    some = [*control[:12], *control[-12:]]
    made = [
        "".join(f"{token}user\nHello {token} there{token}{token}\n" for token in some),
        "".join(f" {token} \n{token[:-1]} {token[1:]}\t{token.upper()}é{token}1" for token in some),
        "x".join(some),
    ]
    return [*_PLAIN, *made]
