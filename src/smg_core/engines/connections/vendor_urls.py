"""The addresses of outside providers, for workers that name none.

Pure. Above: the file of workers. Below: nothing.
"""

from collections.abc import Mapping

__all__ = ["VENDOR_URLS", "vendor_url"]

VENDOR_URLS: Mapping[str, str] = {
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "openai-responses": "https://api.openai.com/v1",
    "openai-chat": "https://api.openai.com/v1",
    "openai-realtime": "https://api.openai.com/v1",
    "gemini-live": "https://generativelanguage.googleapis.com",
    "xai": "https://api.x.ai/v1",
    "mistral": "https://api.mistral.ai/v1",
    "deepseek": "https://api.deepseek.com",
    "openrouter": "https://openrouter.ai/api/v1",
    "groq": "https://api.groq.com/openai/v1",
    "together": "https://api.together.xyz/v1",
    "fireworks": "https://api.fireworks.ai/inference/v1",
    "cohere": "https://api.cohere.ai/compatibility/v1",
    "bedrock": "https://bedrock-runtime.{region}.{suffix}",
    "bedrock-anthropic": "https://bedrock-runtime.{region}.{suffix}",
    "bedrock-mantle": "https://bedrock-mantle.{region}.api.aws/v1",
}
"""By dialect; those with a region need one."""
_CHINA = "cn-"


def vendor_url(dialect: str, region: str) -> str:
    """The address of the provider of that dialect. Raises ValueError where it has none that is known, or one for each region."""
    url = VENDOR_URLS.get(dialect)
    if url is None:
        raise ValueError("url is missing; only dialects of outside providers have addresses of their own")
    if "{region}" in url and not region:
        raise ValueError(f"region is missing; an entry of {dialect} has a region or a url")
    suffix = "amazonaws.com.cn" if region.startswith(_CHINA) else "amazonaws.com"
    return url.format(region=region, suffix=suffix)
