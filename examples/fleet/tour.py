"""One request of each kind that the fleet serves, and a line of what came of it."""

import base64
import io
import logging
from typing import Any

import httpx
from PIL import Image

from smg_core import Gateway


async def tour(gateway: Gateway, metrics: Any, key: str) -> None:
    """Ask the gateway in process, with the key of the example."""
    logging.getLogger("smg.auth").setLevel(logging.ERROR)  # a refused credential is a warning
    headers = {"authorization": f"Bearer {key}"}
    await gateway.services.running.monitor.settled()
    async with gateway.http_client(httpx, base_url="http://gateway/v1", headers=headers, timeout=60) as client:
        models = (await client.get("/models")).json()["data"]
        print("models:", *sorted(each["id"] for each in models))
        stranger = await client.get("/models", headers={"authorization": "Bearer sk-nobody"})
        print("a stranger gets", stranger.status_code)

        text = "Say something of GPUs. " * 300
        for turn in ("first", "again"):
            usage = await _chat(client, "gpt-4o", text)
            print(
                f"{turn}: {usage['prompt_tokens']} tokens, {usage['prompt_tokens_details']['cached_tokens']} from a cache"
            )
        usage = await _chat(client, "qwen3-32b", text)
        print(f"prefill and decode: {usage['completion_tokens']} tokens")

        pixels = io.BytesIO()
        Image.new("RGB", (640, 480), "steelblue").save(pixels, "PNG")
        picture = {"url": "data:image/png;base64," + base64.b64encode(pixels.getvalue()).decode()}
        usage = await _chat(client, "qwen2.5-vl-72b", [{"type": "image_url", "image_url": picture}])
        print(f"a picture: {usage['prompt_tokens']} tokens")

        asked: dict[str, Any] = {"model": "gpt-oss-120b", "input": "What does an hour of an h100 cost? Use gpu_price."}
        tools = [{"type": "mcp", "server_label": each, "require_approval": "never"} for each in ("functions", "time")]
        answer = (await client.post("/responses", json={**asked, "tools": tools, "store": True})).json()
        used = [each["name"] for each in answer["output"] if each["type"] == "mcp_call"]
        kept = await client.get(f"/responses/{answer['id']}")
        print("tools used:", *used, "and the response is kept:", kept.status_code)
    transport = httpx.ASGITransport(metrics)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as scraper:
        lines = (await scraper.get("/metrics")).text.splitlines()
    print("metrics:", sum(line.startswith("smg_worker_calls_total") for line in lines), "series of workers' calls")


async def _chat(client: httpx.AsyncClient, model: str, content: Any) -> dict[str, Any]:
    message = {"role": "user", "content": content}
    answer = await client.post("/chat/completions", json={"model": model, "messages": [message], "max_tokens": 16})
    if answer.is_error:
        raise SystemExit(answer.text)
    usage: dict[str, Any] = answer.json()["usage"]
    return usage
