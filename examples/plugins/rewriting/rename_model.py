"""Gives models other names: who asks for one gets another. The answer names the model that made it.

- source: rename_model:RenameModel
  config: {from: gpt-4o, to: llama-3}
"""

import msgspec
from msgspec.structs import replace

from smg_core.middleware.base import CONTINUE, RequestVerdict
from smg_core.middleware.python import PythonPlugin
from smg_core.request import GenerationRequest


class RenameModel(PythonPlugin):
    """Works on the decoded request, so on every API."""

    class Settings(msgspec.Struct, rename={"asked": "from"}):
        asked: str
        to: str

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        return replace(request, model=self.shared.to) if request.model == self.shared.asked else CONTINUE
