"""LiveKit's realtime model of OpenAI, run in its own environment: a function is called and its output answered, in text.

python livekit_realtime.py URL      writes what it saw as JSON
"""

import asyncio
import json
import sys

from livekit.agents import llm
from livekit.agents.llm import function_tool
from livekit.plugins.openai.realtime import RealtimeModel

PATIENCE_S = 60.0


@function_tool
async def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"SUNNY-IN-{city}"


async def answer(session):
    """The text and the calls of one response."""
    generation = await asyncio.wait_for(session.generate_reply(), PATIENCE_S)
    texts, calls = [], []

    async def read_texts():
        async for message in generation.message_stream:
            texts.extend([piece async for piece in message.text_stream])

    async def read_calls():
        calls.extend([call async for call in generation.function_stream])

    await asyncio.wait_for(asyncio.gather(read_texts(), read_calls()), PATIENCE_S)
    return "".join(texts), calls


async def main(url):
    errors = []
    model = RealtimeModel(model="sim", base_url=url + "/v1", api_key="x", modalities=["text"], turn_detection=None)
    session = model.session()
    session.on("error", lambda error: errors.append(str(error)))
    await session.update_instructions("Be brief.")
    await session.update_tools([get_weather])
    context = llm.ChatContext.empty()
    context.add_message(role="user", content="Weather in Paris?")
    await session.update_chat_ctx(context)
    _, (call,) = await answer(session)
    context = session.chat_ctx.copy()
    output = await get_weather(**json.loads(call.arguments))
    context.items.append(llm.FunctionCallOutput(call_id=call.call_id, name=call.name, output=output, is_error=False))
    await session.update_chat_ctx(context)
    said, _ = await answer(session)
    await session.aclose()
    sys.stdout.write(json.dumps({"called": [json.loads(call.arguments)], "said": said, "errors": errors}))


asyncio.run(main(sys.argv[1]))
