"""The place of the tokenizer, and the bounds of its caches and threads.

A record of settings: `config` gathers it, with those of the other rooms. Below: `settings`.
"""

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["TokenizerConfig"]


@attrs.frozen
class TokenizerConfig:
    """Text to token ids and back."""

    path: str | None = option(
        None, "Folder with the model's tokenizer; without it the engine is asked for its own.", flag="--tokenizer"
    )
    chat_template: str | None = option(None, "File of a chat template (Jinja) to use instead of the model's own.")
    l0_bytes: int = bound(
        8 * MIB,
        "Memory for the tokens of prompts seen whole, in bytes; 0 switches this cache off.",
        at_least=0,
        at_most=1 << 40,
    )
    l1_bytes: int = option(
        8 * MIB,
        "Memory for the tokens of beginnings of prompts, in bytes; 0 switches this cache off.",
        at_least=0,
        at_most=1 << 40,
    )
    l1_characters: int = bound(
        48,
        "Least characters between two places where the cache of beginnings (tokenizer.l1_bytes) cuts a prompt.",
        at_least=1,
        at_most=1 << 20,
    )
    l1_pieces: int = bound(
        1024,
        "Most pieces of a prompt that is cut for the cache of beginnings (tokenizer.l1_bytes); each control token that is"
        " spelled out in a text makes one more.",
        at_least=1,
        at_most=1 << 20,
    )
    protect_control: bool = bound(True, "Keep control tokens that are spelled out in messages or tools as plain text.")
    fast: bool = bound(True, "Use fastokens where it proves equal to the tokenizer when that is loaded.")
    proof_timeout_s: float = bound(
        120.0,
        "Seconds that the proof that fastokens is equal may take for a large tokenizer; then fastokens is not used.",
        at_least=1,
        at_most=3600,
    )
    archive_files: int = bound(
        50, "Most files in the archive of a tokenizer that an engine sends.", at_least=1, at_most=65536
    )
    archive_file_bytes: int = bound(
        200 * MIB,
        "Largest file in the archive of a tokenizer that an engine sends, unpacked, in bytes.",
        at_least=256,
        at_most=1 << 40,
    )
    archive_bytes: int = bound(
        500 * MIB,
        "Most bytes of all files in the archive of a tokenizer that an engine sends, unpacked.",
        at_least=256,
        at_most=1 << 40,
    )
    load_threads: int = bound(
        2, "Threads that unpack and look up what models need while their first workers join.", at_least=1, at_most=256
    )
    encode_threads: int = bound(
        2,
        "Threads that decode, render and encode long requests off the event loop, two at the least; large work (over 256 KiB) "
        "has all but one of them.",
        at_least=1,
        at_most=256,
    )
