"""A server that speaks by espeak-ng and writes down commands by pocketsphinx, as OpenAI's API has both.

Run by the Python that has pocketsphinx, which tools/services.sh installs; writes its port. Of this tree it needs nothing.
"""

import audioop  # type: ignore[import-not-found, unused-ignore]
import io
import json
import subprocess
import sys
import tempfile
import wave
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pocketsphinx  # type: ignore[import-not-found, unused-ignore]

GRAMMAR = """#JSGF V1.0;
grammar commands;
public <command> = (open | close | start | stop) the (door | window | music | heating);
"""
MODEL, HEARD, SPOKEN = "voices", 16_000, 24_000
ROUTES = ("/v1/audio/speech", "/v1/audio/transcriptions")


def spoken(text: str) -> bytes:
    """The text as pcm16 at 24 kHz."""
    made = subprocess.run(["espeak-ng", "-v", "en-us", "-s", "140", "--stdout", text], capture_output=True, check=True)
    with wave.open(io.BytesIO(made.stdout)) as read:  # its head does not know how long it is
        rate, sound = read.getframerate(), made.stdout[made.stdout.index(b"data") + 8 :]
    return bytes(audioop.ratecv(sound[: len(sound) // 2 * 2], 2, 1, rate, SPOKEN, None)[0])


class Listener:
    """Writes down commands."""

    def __init__(self) -> None:
        model = Path(pocketsphinx.__file__).parent / "model" / "en-us"
        with tempfile.NamedTemporaryFile("w", suffix=".jsgf") as grammar:
            grammar.write(GRAMMAR)
            grammar.flush()
            self._decoder = pocketsphinx.Decoder(
                hmm=str(model / "en-us"),
                dict=str(model / "cmudict-en-us.dict"),
                jsgf=grammar.name,
                samprate=HEARD,
                loglevel="FATAL",
            )

    def words(self, recording: bytes) -> str:
        """What is said in a WAV."""
        with wave.open(io.BytesIO(recording)) as read:
            sound = read.readframes(read.getnframes())
            sound = audioop.ratecv(sound, 2, 1, read.getframerate(), HEARD, None)[0]
        self._decoder.start_utt()
        self._decoder.process_raw(sound, full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return "" if found is None else str(found.hypstr)


LISTENER = Listener()


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        listed: dict[str, Any] = {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "x"}]}
        self.answer(json.dumps({"paths": {route: {} for route in ROUTES}} if self.path == "/openapi.json" else listed))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == ROUTES[0]:
            self.answer(spoken(json.loads(body)["input"]), "audio/pcm")
            return
        form = message_from_bytes(b"content-type: " + self.headers["content-type"].encode() + b"\r\n\r\n" + body)
        parts = {part.get_param("name", header="content-disposition"): part for part in form.walk()}
        recording = parts["file"].get_payload(decode=True)
        self.answer(json.dumps({"text": LISTENER.words(bytes(recording))}))

    def answer(self, body: str | bytes, kind: str = "application/json") -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()
