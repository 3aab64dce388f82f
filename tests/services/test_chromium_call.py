"""A browser in a session over a call: Chromium, whose microphone is a recording, and nothing of whose side is ours."""

import asyncio
import json
import shutil
import socket as sockets
import threading
import wave
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest
from aioice.ice import get_host_addresses
from tests.gateway.conftest import House, over_http, settled
from tests.gateway.fleet import joined
from tests.gateway.realtime import talk, until
from tests.gateway.speaking import speaking_server
from tests.gateway.test_realtime_calls import taking
from tests.gateway.test_realtime_calls_sound import SAID, hum
from tests.gateway.test_realtime_sound import SENTENCE, VAD, WHISPER
from tests.gateway.vision_models import qwen2_audio

from smg_core.http.settings import ServerConfig
from smg_core.workers.worker import WorkerSpec
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine

pytestmark = [pytest.mark.anyio, pytest.mark.services, pytest.mark.timeout(300)]

PATIENCE_S = 90.0  # a browser that is started beside other work
PAGE = """<!doctype html><audio autoplay></audio><script>
const tell = (event) => fetch("/told", {method: "POST", body: JSON.stringify(event)});
const hold = async () => {
  const call = new RTCPeerConnection(OPTIONS);
  call.ontrack = ({streams}) => { document.querySelector("audio").srcObject = streams[0]; };
  call.onconnectionstatechange = () => tell({type: "page.state", state: call.connectionState});
  call.addTrack((await navigator.mediaDevices.getUserMedia({audio: true})).getTracks()[0]);
  const events = call.createDataChannel("oai-events");
  events.onmessage = ({data}) => tell(JSON.parse(data));
  events.onclose = () => tell({type: "page.closed"});
  await call.setLocalDescription();
  const answer = await fetch("GATEWAY/v1/realtime/calls?model=sim", {
    method: "POST", body: call.localDescription.sdp,
    headers: {"Content-Type": "application/sdp", Authorization: "Bearer SECRET"},
  });
  await tell({type: "page.answered", status: answer.status, location: answer.headers.get("Location")});
  await call.setRemoteDescription({type: "answer", sdp: await answer.text()});
  for (;;) {
    for (const each of (await call.getStats()).values())
      if (each.type === "local-candidate") tell({type: "page.reaches", by: each.candidateType});
      else if (each.type === "inbound-rtp") tell({type: "page.heard", energy: each.totalAudioEnergy, lost: each.packetsLost});
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
};
hold().catch((error) => tell({type: "page.failed", why: String(error)}));
</script>"""
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
)


@attrs.define(eq=False)
class Page:
    """The server of the page, and what the page has told of its call."""

    text: str = ""
    url: str = ""
    told: asyncio.Queue[Any] = attrs.field(factory=asyncio.Queue)
    seen: list[Any] = attrs.field(factory=list)

    async def until(self, kind: str, **fields: Any) -> Any:
        """The next of this type, with these fields."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                event = await self.told.get()
                self.seen.append(event)
                assert event["type"] != "page.failed", event
                if event["type"] == kind and fields.items() <= event.items():
                    return event


@contextmanager
def served() -> Iterator[Page]:
    """The page's own server: another origin than the gateway, as a site's is."""
    page, loop = Page(), asyncio.get_running_loop()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page.text.encode())

        def do_POST(self) -> None:
            event = json.loads(self.rfile.read(int(self.headers["content-length"])))
            loop.call_soon_threadsafe(page.told.put_nowait, event)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    page.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield page
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@asynccontextmanager
async def browsing(page: Page, folder: Path) -> AsyncIterator[None]:
    """Chromium on the page. It says one sentence, and is silent."""
    program = shutil.which("chromium")
    assert program is not None, "chromium is not here; tools/services.sh installs it"
    said = folder / "said.wav"
    with wave.open(str(said), "wb") as recording:
        recording.setparams((1, 2, 24_000, 0, "NONE", ""))
        recording.writeframes(bytes(48_000) + SENTENCE + bytes(48_000 * 120))
    flags = [*FLAGS, f"--use-file-for-fake-audio-capture={said}%noloop", f"--user-data-dir={folder / 'profile'}"]
    with (folder / "chromium.log").open("wb") as log:
        browser = await asyncio.create_subprocess_exec(program, *flags, page.url, stdout=log, stderr=log)
        try:
            yield
        finally:
            browser.terminate()
            await browser.wait()


@asynccontextmanager
async def gateway(page: Page, folder: Path) -> AsyncIterator[House]:
    """A gateway that pages of that origin may call, with models that answer, write down what is said, and speak."""
    model = qwen2_audio(folder / "model")
    writer = SimulatorConfig(seed=1, model="whisper", model_folder=str(model), replies=(Reply("Weather in Paris?"),))
    config = attrs.evolve(taking(speech_model="kokoro"), server=ServerConfig(cors_origins=(page.url,)))
    async with (
        over_http(SimulatorConfig(seed=1, replies=(Reply(SAID), Reply("Bye."))), config=config) as house,
        SimulatedEngine(writer) as second,
        speaking_server() as server,
    ):
        await joined(house.gateway, house.gateway.add_worker(WorkerSpec(second.target, dialect="vllm")).name)
        server.voice = hum
        await joined(house.gateway, house.gateway.add_worker(WorkerSpec(server.url)).name)
        yield house


def page_of(house: House, secret: str, **options: Any) -> str:
    """The page, whose connection has these options."""
    return PAGE.replace("GATEWAY", house.url).replace("SECRET", secret).replace("OPTIONS", json.dumps(options))


@asynccontextmanager
async def relaying(folder: Path) -> AsyncIterator[str]:
    """A TURN server that takes TCP, as of a firewall that lets nothing else through: its URL."""
    program = shutil.which("turnserver")
    assert program is not None, "coturn is not here; tools/services.sh installs it"
    with sockets.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    relay = get_host_addresses(use_ipv4=True, use_ipv6=False)[0]
    flags = (
        "-n",
        "--no-cli",
        "--no-tls",
        "--no-dtls",
        "--no-udp",
        "--lt-cred-mech",
        "--log-file=stdout",
        "--simple-log",
    )
    named = (
        f"--listening-port={port}",
        "--listening-ip=127.0.0.1",
        f"--relay-ip={relay}",
        "--user=me:word",
        "--realm=r",
    )
    ports = (
        "--min-port=23000",
        "--max-port=23999",
        f"--pidfile={folder / 'turn.pid'}",
        f"--userdb={folder / 'turn.db'}",
    )
    with (folder / "turn.log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(program, *flags, *named, *ports, stdout=log, stderr=log)
        try:
            yield f"turn:127.0.0.1:{port}?transport=tcp"
        finally:
            server.terminate()
            await server.wait()


async def test_a_browser_behind_a_firewall_has_its_session_through_a_relay_of_its_own(tmp_path: Path) -> None:
    with served() as page:
        config = attrs.evolve(taking(), server=ServerConfig(cors_origins=(page.url,)))
        async with over_http(SimulatorConfig(seed=1), config=config) as house, relaying(tmp_path) as turn:
            relay = {"urls": turn, "username": "me", "credential": "word"}
            page.text = page_of(house, "any", iceServers=[relay], iceTransportPolicy="relay")
            async with browsing(page, tmp_path):
                await page.until("page.answered", status=201)
                await page.until("session.created")
                await page.until("page.reaches", by="relay")
            await settled(house)
    assert {each["by"] for each in page.seen if each["type"] == "page.reaches"} == {"relay"}


async def test_a_browser_speaks_and_is_answered_by_voice_and_another_listens_in_and_hangs_up(tmp_path: Path) -> None:
    with served() as page:
        async with gateway(page, tmp_path) as house:
            sound = {"input": {"turn_detection": VAD, "transcription": WHISPER}}
            session = {"type": "realtime", "model": "sim", "audio": sound}
            made = await house.http.post("/v1/realtime/client_secrets", json={"session": session})
            page.text = page_of(house, made.json()["value"])
            async with browsing(page, tmp_path):
                answered = await page.until("page.answered", status=201)
                await page.until("session.created")
                id = answered["location"].rpartition("/")[2]
                async with talk(house, f"/v1/realtime?call_id={id}") as listening:
                    await page.until("input_audio_buffer.speech_started")
                    words = await page.until("conversation.item.input_audio_transcription.completed")
                    await page.until("output_audio_buffer.stopped")
                    heard = await page.until("page.heard")
                    told = await until(listening, "output_audio_buffer.stopped")
                ended = await house.http.post(f"{answered['location']}/hangup")
                await page.until("page.closed")
            await settled(house)
    kinds = [each["type"] for each in page.seen]
    assert words["transcript"] == "Weather in Paris?"
    assert heard["energy"] > 0.01
    assert kinds.index("response.created") < kinds.index("output_audio_buffer.started") < kinds.index("response.done")
    assert "response.output_audio.delta" not in kinds
    assert {"response.created", "response.done"} <= {each["type"] for each in told}
    assert ended.status_code == 200
    assert "connected" in [each["state"] for each in page.seen if each["type"] == "page.state"]
