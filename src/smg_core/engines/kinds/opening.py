"""Opens the client of a worker's engine, of the kind that it is (edge). Above: fleet.connect. Below: table, token_ids."""

import asyncio
from collections.abc import Callable, Sequence

from smg_core.engines.base import Codec, Engine, Transport
from smg_core.engines.kinds.kind import EngineKind, EnginePlace
from smg_core.engines.kinds.table import kinds_at
from smg_core.engines.token_ids.client import EngineClient
from smg_core.errors import SmgError, WorkerGone

__all__ = ["open_engine"]


async def open_engine(place: EnginePlace) -> Engine:
    """A client of the engine at `place`, which has answered where it was asked what it speaks. Raises SmgError if it does not
    answer then, UnknownDialect and ValueError as `kinds_at` does."""
    kinds = kinds_at(place)
    first = kinds[0]
    if first.open is not None:
        return first.open(place)
    transport = next(each.transport(place) for each in kinds if each.transport is not None)
    try:
        return await _speaking(transport, kinds, place)
    except BaseException:
        await transport.close()
        raise


async def _speaking(transport: Transport, kinds: Sequence[EngineKind], place: EnginePlace) -> EngineClient:
    """A client in the first of the codecs that the engine answers in; a single one is used without asking."""
    codecs = [(each.name, each.codec) for each in kinds if each.codec is not None]
    failure: SmgError | None = None
    if len(codecs) == 1:
        return EngineClient(await _loaded(codecs[0][1]), transport, place.limits)
    for at, (_, codec) in enumerate(codecs):
        before = ", ".join(name for name, _ in codecs[:at]) or "none"
        client = EngineClient(await _loaded(codec), transport, place.limits, f"it answered; asked before: {before}")
        try:
            await client.health()
        except WorkerGone:
            raise
        except SmgError as error:
            failure = error
        else:
            return client
    raise WorkerGone("The engine speaks no dialect that is known here.", detail=str(failure))


async def _loaded(codec: Callable[[], Codec]) -> Codec:
    """A codec, made in a thread: the first of a dialect loads the messages of that, which takes too long for the event loop."""
    return await asyncio.to_thread(codec)
