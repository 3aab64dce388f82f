"""The rows of generateContent and streamGenerateContent."""

import attrs

from smg_core.apis.gemini.decode import GeminiRequest, decode_generate, decode_stream_generate
from smg_core.apis.gemini.encode import GeminiStreamEncoder, GeminiWholeEncoder, blocked_or_error, is_blocked_prompt
from smg_core.serving.api import Api

__all__ = ["GENERATE_CONTENT", "STREAM_GENERATE_CONTENT"]


GENERATE_CONTENT: Api[GeminiRequest] = Api(
    name="generate_content",
    id_prefix="gc-",
    decode=decode_generate,
    stream=GeminiStreamEncoder,
    whole=GeminiWholeEncoder,
    error=blocked_or_error,
    status=lambda error: 200 if is_blocked_prompt(error) else error.status,
    answers_blocked=True,
)

STREAM_GENERATE_CONTENT = attrs.evolve(GENERATE_CONTENT, decode=decode_stream_generate)
