"""Pipecat's service for OpenAI's realtime API, run in its own environment: a function is called and its output answered, in text.

python pipecat_realtime.py URL      writes what it saw as JSON
"""

import asyncio
import json
import sys

from pipecat.adapters.schemas.function_schema import FunctionSchema
from pipecat.adapters.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import EndFrame, ErrorFrame, LLMFullResponseEndFrame, LLMRunFrame, LLMTextFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.runner import PipelineRunner
from pipecat.pipeline.task import PipelineTask
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService

PATIENCE_S = 60.0
SAW = {"called": [], "said": "", "errors": []}


class Ear(FrameProcessor):
    """Hears what the service says, and ends the pipeline behind the answer."""

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        if isinstance(frame, LLMTextFrame):
            SAW["said"] += frame.text
        elif isinstance(frame, ErrorFrame):
            SAW["errors"].append(frame.error)
        await self.push_frame(frame, direction)
        if isinstance(frame, LLMFullResponseEndFrame) and SAW["said"]:
            await self.push_frame(EndFrame(), direction)
            ENDED.set()


async def get_weather(asked):
    SAW["called"].append(dict(asked.arguments))
    await asked.result_callback(f"SUNNY-IN-{asked.arguments['city']}")


async def main(url):
    weather = FunctionSchema(
        name="get_weather",
        description="The weather in a city.",
        properties={"city": {"type": "string"}},
        required=["city"],
    )
    sound = events.AudioConfiguration(input=events.AudioInput(turn_detection=False))
    service = OpenAIRealtimeLLMService(
        api_key="x",
        model="sim",
        base_url=url.replace("http", "ws", 1) + "/v1/realtime",
        session_properties=events.SessionProperties(output_modalities=["text"], audio=sound),
    )
    service.register_function("get_weather", get_weather)
    context = LLMContext(
        [{"role": "user", "content": "Weather in Paris?"}], tools=ToolsSchema(standard_tools=[weather])
    )
    sides = LLMContextAggregatorPair(context)
    task = PipelineTask(Pipeline([sides.user(), service, Ear(), sides.assistant()]), cancel_on_idle_timeout=False)
    await task.queue_frames([LLMRunFrame()])
    running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
    await asyncio.wait_for(ENDED.wait(), PATIENCE_S)
    await task.cancel()
    await asyncio.wait([running], timeout=PATIENCE_S)
    sys.stdout.write(json.dumps(SAW))


ENDED = asyncio.Event()
asyncio.run(main(sys.argv[1]))
