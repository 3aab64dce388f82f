"""Tells what an answer cost: prices as headers, and the sum as an event behind a stream.

- source: tell_costs:TellCosts
  config: {prompt: 2.5, completion: 10}     # prices of a million tokens
"""

import attrs

from smg_core.middleware.base import ChangeHead, End, HeadVerdict, ResponseHead
from smg_core.middleware.python import PythonPlugin


class TellCosts(PythonPlugin):
    """Clients that do not know the event `cost` skip it; SDKs read none behind the end of a stream."""

    @attrs.frozen
    class Settings:
        prompt: float
        completion: float

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        prices = {"prompt": self.shared.prompt, "completion": self.shared.completion}
        return ChangeHead(set=tuple((f"x-cost-per-million-{name}", f"{price:g}") for name, price in prices.items()))

    async def on_end(self, end: End) -> str:
        if end.prompt_tokens is None or end.completion_tokens is None:
            return ""
        micros = int(end.prompt_tokens * self.shared.prompt + end.completion_tokens * self.shared.completion + 0.5)
        tokens = f'"prompt_tokens":{end.prompt_tokens},"completion_tokens":{end.completion_tokens}'
        return f'event: cost\ndata: {{{tokens},"cost":{micros // 1_000_000}.{micros % 1_000_000:06}}}\n\n'
