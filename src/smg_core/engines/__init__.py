"""The gateway's clients of inference engines.

    from smg_core.engines import EngineSession

    async with EngineSession("grpc://gpu-0:50051") as engine:
        async for output in engine.generate([1, 2, 3]): ...

The modules of this folder are records and roles that all below share: `base` has the requests, outputs, facts about an engine
and the roles `Engine`, `Codec` and `Transport`; `settings` what a connection may hold.
kinds        the table of the kinds of engines, `ENGINE_KINDS`: which URLs name each, and how it is opened
codecs       one folder a dialect of engines that take token ids (vLLM, SGLang ...), and what several of them share
token_ids    `EngineClient`: one codec on one transport; openai: `OpenAiEngine`, a server of the Chat Completions API
grpc, http   gRPC (over our own HTTP/2 or grpcio) and HTTP/1.1; connections: addresses, TLS and queues that both have
kv_zmq       KV events as engines publish them on ZeroMQ; _pb: generated messages of the neutral contract (tools/proto.py)
The names below load their modules when they are first used; inside the gateway, names are imported from the modules.
"""

from typing import TYPE_CHECKING

from smg_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from smg_core.engines.base import ChatEngine as ChatEngine
    from smg_core.engines.base import Codec as Codec
    from smg_core.engines.base import EngineFacts as EngineFacts
    from smg_core.engines.base import EngineOutput as EngineOutput
    from smg_core.engines.base import EngineRequest as EngineRequest
    from smg_core.engines.base import IdsEngine as IdsEngine
    from smg_core.engines.base import ModelInfo as ModelInfo
    from smg_core.engines.connections.target import Tls as Tls
    from smg_core.engines.constraint import Constraint as Constraint
    from smg_core.engines.grpc.grpcio import GrpcioTransport as GrpcioTransport
    from smg_core.engines.grpc.h2.transport import H2Transport as H2Transport
    from smg_core.engines.kinds.grpc import grpc_kind as grpc_kind
    from smg_core.engines.kinds.http import http_kind as http_kind
    from smg_core.engines.kinds.kind import EngineKind as EngineKind
    from smg_core.engines.kinds.kind import EnginePlace as EnginePlace
    from smg_core.engines.kinds.opening import open_engine as open_engine
    from smg_core.engines.kinds.session import EngineSession as EngineSession
    from smg_core.engines.kinds.table import UnknownDialect as UnknownDialect
    from smg_core.engines.kinds.table import kind_names as kind_names
    from smg_core.engines.settings import EnginesConfig as EnginesConfig
    from smg_core.engines.token_ids.client import EngineClient as EngineClient
    from smg_core.request import Sampling as Sampling
    from smg_core.tokens import TokenIds as TokenIds

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "smg_core.engines.base": (
            *("ChatEngine", "Codec", "EngineFacts", "EngineOutput", "EngineRequest"),
            *("IdsEngine", "ModelInfo"),
        ),
        "smg_core.engines.connections.target": ("Tls",),
        "smg_core.engines.constraint": ("Constraint",),
        "smg_core.engines.grpc.grpcio": ("GrpcioTransport",),
        "smg_core.engines.grpc.h2.transport": ("H2Transport",),
        "smg_core.engines.kinds.grpc": ("grpc_kind",),
        "smg_core.engines.kinds.http": ("http_kind",),
        "smg_core.engines.kinds.kind": ("EngineKind", "EnginePlace"),
        "smg_core.engines.kinds.opening": ("open_engine",),
        "smg_core.engines.kinds.session": ("EngineSession",),
        "smg_core.engines.kinds.table": ("UnknownDialect", "kind_names"),
        "smg_core.engines.settings": ("EnginesConfig",),
        "smg_core.engines.token_ids.client": ("EngineClient",),
        "smg_core.request": ("Sampling",),
        "smg_core.tokens": ("TokenIds",),
    },
)
