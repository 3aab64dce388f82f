"""A plain client of calls by WebRTC: the channel of events, held to the SDK's types, and sound both ways."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import httpx
import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame, AudioResampler
from tests.gateway.conftest import House
from tests.gateway.realtime import EVENTS
from tests.shared import PATIENCE

CALLS = "/v1/realtime/calls"
PORTS = "20000-22999"
_SAMPLES = 480  # of 20 ms at 24 kHz


class Microphone(MediaStreamTrack):
    """Says what was put into it, in its own time, and is silent else."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.waiting = bytearray()
        self._frames, self._began = 0, 0.0

    async def recv(self) -> AudioFrame:
        """The next 20 ms."""
        loop = asyncio.get_running_loop()
        self._began = self._began or loop.time()
        await asyncio.sleep(max(0.0, self._began + self._frames * 0.02 - loop.time()))
        sound = bytes(self.waiting[: 2 * _SAMPLES]).ljust(2 * _SAMPLES, b"\0")
        del self.waiting[: 2 * _SAMPLES]
        frame = AudioFrame(format="s16", layout="mono", samples=_SAMPLES)
        frame.planes[0].update(sound)
        frame.sample_rate, frame.time_base = 24_000, Fraction(1, 24_000)
        frame.pts = self._frames * _SAMPLES
        self._frames += 1
        return frame


class Phone:
    """One side of a call: `events` are those that were told, `speaker` what was heard."""

    def __init__(self, *, sound: bool = True, label: str | None = "oai-events") -> None:
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.microphone = Microphone()
        self.speaker = bytearray()
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.id = self.location = ""
        self._hearing: asyncio.Task[None] | None = None
        self.channel: RTCDataChannel | None = None
        if label is not None:
            self.channel = self.connection.createDataChannel(label)
            self.channel.on("message", self._told)
            self.channel.on("close", self.closed.set)
        if sound:
            self.connection.addTrack(self.microphone)
        self.connection.on("track", self._sounds)
        self.connection.on("connectionstatechange", self._changed)

    def _told(self, text: str) -> None:
        self.events.put_nowait(text)

    def _changed(self) -> None:
        if self.connection.connectionState in ("closed", "failed"):
            self.closed.set()

    def _sounds(self, track: MediaStreamTrack) -> None:
        self._hearing = asyncio.get_running_loop().create_task(self._hear(track))

    async def _hear(self, track: MediaStreamTrack) -> None:
        resampler = AudioResampler(format="s16", layout="mono", rate=24_000)
        while True:
            try:
                frame = await track.recv()
            except MediaStreamError:
                return
            for each in resampler.resample(frame):
                self.speaker += bytes(each.planes[0])[: 2 * each.samples]

    async def offer(self) -> str:
        await self.connection.setLocalDescription(await self.connection.createOffer())
        text: str = self.connection.localDescription.sdp
        return text

    async def answered(self, answer: httpx.Response) -> None:
        """The gateway has answered the offer: connect."""
        assert answer.status_code == 201, answer.text
        assert answer.headers["content-type"] == "application/sdp"
        self.location = answer.headers["location"]
        self.id = self.location.removeprefix(f"{CALLS}/")
        await self.connection.setRemoteDescription(RTCSessionDescription(answer.text, "answer"))

    async def receive(self) -> Any:
        """The next event, which is one of the SDK's to the letter."""
        async with asyncio.timeout(PATIENCE):
            text = await self.events.get()
        EVENTS.validate_json(text, strict=True)
        return json.loads(text)

    async def until(self, *kinds: str) -> list[Any]:
        """The events up to the first of one of these kinds."""
        events: list[Any] = []
        while not events or events[-1]["type"] not in (*kinds, "error"):
            event = await self.receive()
            if event.get("error", {}).get("code") != "unsupported_content":  # silence, where nobody hears it
                events.append(event)
        return events

    async def send(self, kind: str, **fields: Any) -> None:
        assert self.channel is not None
        self.channel.send(json.dumps({"type": kind, **fields}))

    async def say(self, text: str) -> None:
        """Put a message of the user into the conversation."""
        content = [{"type": "input_text", "text": text}]
        await self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await self.until("conversation.item.done")

    async def hang_up(self) -> None:
        if self._hearing is not None:
            self._hearing.cancel()
        await self.connection.close()


async def an_offer(**of: Any) -> str:
    """The offer of somebody who never connects."""
    phone = Phone(**of)
    try:
        return await phone.offer()
    finally:
        await phone.hang_up()


async def create(house: House, offer: str, session: Any = None, path: str = CALLS, **headers: str) -> httpx.Response:
    """Ask for a call, as the SDK does where there are settings, and else as a browser does."""
    if session is None:
        return await house.http.post(path, content=offer, headers={"content-type": "application/sdp", **headers})
    form = {"sdp": (None, offer, "application/sdp"), "session": (None, json.dumps(session), "application/json")}
    async with httpx.AsyncClient(base_url=house.url, timeout=PATIENCE, trust_env=False) as http:
        return await http.post(path, files=form, headers=headers)


@asynccontextmanager
async def call(
    house: House, session: Any = None, *, path: str = "", sound: bool = True, **headers: str
) -> AsyncIterator[Phone]:
    """A call that was answered."""
    phone = Phone(sound=sound)
    try:
        path = path or (CALLS if session else f"{CALLS}?model=sim")
        await phone.answered(await create(house, await phone.offer(), session, path, **headers))
        yield phone
    finally:
        await phone.hang_up()


def loudness(sound: bytes) -> float:
    """How loud pcm16 is, as a share of what can be."""
    samples = np.frombuffer(bytes(sound[: len(sound) // 2 * 2]), dtype="<i2").astype(np.float64)
    return float(np.sqrt(np.mean(samples**2)) / 32768) if len(samples) else 0.0
