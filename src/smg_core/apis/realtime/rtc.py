"""One call by WebRTC, over the package aiortc (edge): ICE, DTLS, the channel of events, and sound as Opus both ways.

Loaded with the first call. Ports are those that the operator has named, and nothing is sent to an address that has not asked them
first. Sound is pcm16 at 24 kHz on this side. Above: the calls. Below: aiortc, av.
"""

import asyncio
import errno
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import attrs
from aioice.candidate import Candidate, candidate_foundation, candidate_priority
from aioice.ice import Connection, StunProtocol
from aiortc import (
    InvalidStateError,
    MediaStreamTrack,
    RTCConfiguration,
    RTCDataChannel,
    RTCIceGatherer,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
)
from aiortc.exceptions import InternalError as InternalRtcError
from aiortc.exceptions import InvalidAccessError, OperationError
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame, AudioResampler

from smg_core.apis.realtime.settings import UdpPorts
from smg_core.apis.realtime.wire.offer import reachable_at
from smg_core.apis.realtime.wire.playing import FRAME_SOUND_BYTES
from smg_core.errors import InvalidRequest, Overloaded, PayloadTooLarge

__all__ = ["CallEnds", "PortsInUse", "RtcPeer"]

_CHANNEL = "oai-events"
_RATE = 24_000
_FRAME_S = 0.02
_LATE_S = 1.0  # behind which sound is not caught up with
_SILENT_S = 0.1  # without sound of the caller until it is taken for silence
_SILENT_FRAMES = 50  # at most, for a caller that says nothing for long: longer than any pause that ends a turn
_TYPE_WITHIN = 80  # characters of an event, in which its type is
_AT_ONCE = 1920  # bytes of the caller's sound that are told at once: 40 ms
_WRONG_OFFER = (
    *(ValueError, LookupError, AssertionError, TypeError, AttributeError),
    *(InvalidStateError, InvalidAccessError, OperationError, InternalRtcError),
)
"""What aiortc raises for a description that it cannot take."""


class PortsInUse:
    """The ports for calls, of which each is used by one call at a time. A port that another program has is passed over."""

    def __init__(self, ports: UdpPorts) -> None:
        self._ports = ports
        self._next = ports.first
        self._is_here: bool | None = None  # whether the address to be reached at is one of this machine

    def addresses(self, found: Sequence[str]) -> Sequence[str]:
        """The addresses of this machine whose ports are opened, of those `found`."""
        return [self._ports.host] if self._is_here else found

    def reached(self, address: str) -> str:
        """By what an address of this machine is reached."""
        return self._ports.host or address

    async def open(self, connection: Connection, found: Sequence[str]) -> list[StunProtocol]:
        """Open a port at each address. Raises Overloaded where none is free."""
        if self._ports.host and self._is_here is None:
            self._is_here = await self._opened(connection, self._ports.host, [0], keep=False) is not None
        opened = [await self._opened(connection, each, self._candidates()) for each in self.addresses(found)]
        if not any(opened):
            raise Overloaded("All ports for calls are in use.", detail="realtime.udp_ports")
        return [each for each in opened if each is not None]

    def _candidates(self) -> Iterator[int]:
        """All ports, from the one behind the last."""
        first, count = self._ports.first, self._ports.last - self._ports.first + 1
        behind = self._next - first
        for step in range(count):
            port = first + (behind + step) % count
            self._next = port + 1
            yield port

    async def _opened(
        self, connection: Connection, address: str, ports: Iterator[int] | Sequence[int], *, keep: bool = True
    ) -> StunProtocol | None:
        loop = asyncio.get_running_loop()
        for port in ports:
            try:
                transport, protocol = await loop.create_datagram_endpoint(
                    lambda: StunProtocol(connection), local_addr=(address, port)
                )
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    continue
                return None
            if not keep:
                transport.close()
            return protocol
        return None


@attrs.frozen
class CallEnds:
    """What a call does with what comes of its caller, and where it has what it plays. `from_client` is called with each message
    of the channel, `heard` with sound, `opened` once there is a channel, `lost` when the call is over; `play` gives the next
    20 ms."""

    from_client: Callable[[str | bytes], None]
    heard: Callable[[bytes], None]
    opened: Callable[[], None]
    lost: Callable[[], None]
    play: Callable[[], bytes]


class RtcPeer:
    """One call, to be answered once, and closed. `most_waiting` are the bytes that wait for its caller before `send` does."""

    def __init__(self, ports: PortsInUse, ends: CallEnds, most_waiting: int, write_s: float) -> None:
        self._ports, self._ends = ports, ends
        self._connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._channel: RTCDataChannel | None = None
        self._opened, self._room = asyncio.Event(), asyncio.Event()
        self._most, self._write_s = most_waiting, write_s
        self._listening: asyncio.Task[None] | None = None
        self._opening: list[Connection] = []
        self._closed = False

    async def answer(self, offer: str) -> str:
        """The answer to an offer. Raises InvalidRequest, and Overloaded where there is no port."""
        connection = self._connection
        connection.on("datachannel", self._found_channel)
        connection.on("track", self._found_sound)
        connection.on("connectionstatechange", self._changed)
        try:
            if "\r\nm=audio " in offer:
                transceiver = connection.addTransceiver(_Voice(self._ends.play))
                known = RTCRtpSender.getCapabilities("audio").codecs
                transceiver.setCodecPreferences([each for each in known if each.mimeType == "audio/opus"])
            await asyncio.sleep(0)  # each of these takes a millisecond or two, and waits for nothing
            await connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
            for gatherer in self._gatherers():
                self._confine(gatherer)
            await asyncio.sleep(0)
            answer = await connection.createAnswer()
            await asyncio.sleep(0)
            await connection.setLocalDescription(answer)
        except _WRONG_OFFER as error:
            words = str(error)[:200]
            raise InvalidRequest(
                "Invalid 'sdp': no call can be made of it, which has sound as Opus and a data channel.",
                param="sdp",
                code="invalid_offer",
                detail=f"{type(error).__name__}: {words}",
                outside_text=words,
            ) from None
        return reachable_at(connection.localDescription.sdp, self._ports.reached)

    def _gatherers(self) -> list[RTCIceGatherer]:
        """What opens ports for the call: one where all goes over one port, as browsers ask for."""
        connection = self._connection
        transports = [each.sender.transport for each in connection.getTransceivers()]
        if connection.sctp is not None:
            transports.append(connection.sctp.transport)
        return list({id(each): each.transport.iceGatherer for each in transports}.values())

    def _confine(self, gatherer: RTCIceGatherer) -> None:
        """Have it open no other ports than those for calls; aioice itself takes any."""
        ice = gatherer._connection
        self._opening.append(ice)

        async def candidates(component: int, addresses: list[str]) -> list[Candidate]:
            opened = await self._ports.open(ice, addresses)
            for protocol in opened:
                host, port = protocol.transport.get_extra_info("sockname")[:2]
                protocol.local_candidate = Candidate(
                    foundation=candidate_foundation("host", "udp", host),
                    component=component,
                    transport="udp",
                    priority=candidate_priority(component, "host"),
                    host=host,
                    port=port,
                    type="host",
                )
            ice._protocols += opened
            return [each.local_candidate for each in opened]

        ice.get_component_candidates = candidates  # type: ignore[assignment, method-assign]

    # ---------------------------------------------------------------------------------------------------------- events

    def _found_channel(self, channel: RTCDataChannel) -> None:
        if channel.label != _CHANNEL or self._channel is not None:
            channel.close()
            return
        self._channel = channel
        channel.bufferedAmountLowThreshold = self._most // 2
        channel.on("message", self._ends.from_client)
        channel.on("bufferedamountlow", self._room.set)
        channel.on("close", self._lost)
        self._opened.set()
        self._ends.opened()

    async def send(self, text: str) -> bool:
        """Send a message, once there is a channel and room in it; a caller who takes nothing for `write_s` is lost. False where
        the call is over. Raises PayloadTooLarge for a message that the caller's side does not take."""
        await self._opened.wait()
        try:
            async with asyncio.timeout(self._write_s):
                while self.is_open and self._channel is not None and self._channel.bufferedAmount > self._most:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            self._lost()
        if not self.is_open or self._channel is None:
            return False
        try:
            self._channel.send(text)
        except ValueError:
            kind = text[:_TYPE_WITHIN].partition('"type":"')[2].partition('"')[0]
            raise PayloadTooLarge(
                f"An event {kind} of {len(text)} characters is longer than your side of the call takes.",
                code="event_too_large",
            ) from None
        return True

    async def sent(self, seconds: float) -> None:
        """Return once the caller has taken all, or after so many seconds."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self.is_open and self._channel is not None and self._channel.bufferedAmount:
            if asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(_FRAME_S)

    @property
    def is_open(self) -> bool:
        """Whether events can be told."""
        return not self._closed and self._channel is not None and self._channel.readyState == "open"

    def _changed(self) -> None:
        if self._connection.connectionState in ("failed", "closed"):
            self._lost()

    def _lost(self) -> None:
        self._closed = True
        self._opened.set()
        self._room.set()
        self._ends.lost()

    # ----------------------------------------------------------------------------------------------------------- sound

    def _found_sound(self, track: MediaStreamTrack) -> None:
        if track.kind == "audio" and self._listening is None:
            self._listening = asyncio.get_running_loop().create_task(self._listen(track))

    async def _listen(self, track: MediaStreamTrack) -> None:
        """Pass on what the caller says; a caller that sends nothing is silent."""
        resampler = AudioResampler(format="s16", layout="mono", rate=_RATE)
        waiting, silent = bytearray(), _SILENT_FRAMES
        while True:
            try:
                async with asyncio.timeout(_SILENT_S):
                    frame = await track.recv()
                silent = 0
                for each in resampler.resample(frame) if isinstance(frame, AudioFrame) else ():
                    waiting += bytes(each.planes[0])[: 2 * each.samples]
            except TimeoutError:
                if silent >= _SILENT_FRAMES:
                    continue
                missing = round(_SILENT_S / _FRAME_S)
                silent += missing
                waiting += bytes(missing * FRAME_SOUND_BYTES)
            except MediaStreamError:
                return
            if len(waiting) >= _AT_ONCE:
                self._ends.heard(bytes(waiting))
                waiting.clear()

    async def close(self) -> None:
        """End the call."""
        self._closed = True
        self._opened.set()
        self._room.set()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        try:
            await self._connection.close()
        except _WRONG_OFFER:  # what was made of such an offer is half made
            for each in self._opening:
                await each.close()


class _Voice(MediaStreamTrack):
    """What a call plays: 20 ms each 20 ms, silence among it."""

    kind = "audio"

    def __init__(self, play: Callable[[], bytes]) -> None:
        super().__init__()
        self._play = play
        self._began = 0.0
        self._frames = 0

    async def recv(self) -> AudioFrame:
        """The next 20 ms, when it is their time."""
        if self.readyState != "live":
            raise MediaStreamError
        now = asyncio.get_running_loop().time()
        due = self._began + self._frames * _FRAME_S
        if not self._frames or now - due > _LATE_S:
            self._began = now - self._frames * _FRAME_S
        elif due > now:
            await asyncio.sleep(due - now)
        frame = AudioFrame(format="s16", layout="mono", samples=FRAME_SOUND_BYTES // 2)
        frame.planes[0].update(self._play())
        frame.sample_rate, frame.time_base = _RATE, Fraction(1, _RATE)
        frame.pts = self._frames * (FRAME_SOUND_BYTES // 2)
        self._frames += 1
        return frame
