"""The calls of the MLX dialect beside Generate: health, the model, the tokenizer, abort.

Decides which method each call is and what its reply means; pure. Above: `codec`, which offers them. The messages come from the
package smg-grpc-proto. GetServerInfo says nothing that the gateway needs, so all facts are those of the table.
"""

import attrs

from smg_core.engines.base import EngineFacts, ModelInfo, ProcessFacts, Unary
from smg_core.engines.codecs.answers import parse
from smg_core.engines.codecs.shared_calls import health_call, tokenizer_call
from smg_engine_contract.engines import mlx_engine_pb2 as pb

__all__ = ["FACTS", "HEALTH", "INPUT_IDS", "MODEL", "SERVICE", "TOKENIZED", "TOKENIZER", "abort"]

SERVICE = "mlx.grpc.engine.MlxEngine"

TOKENIZED, INPUT_IDS = 2, 2
"""Field numbers of GenerateRequest, and of TokenizedInput, for what is framed by hand."""

FACTS = EngineFacts(
    dialect="mlx",
    fans_out=True,
    greedy_n=False,
    min_tokens=False,
    stop_strings=False,
    constraints=frozenset(),
    max_logprobs=None,
    prompt_logprobs=False,
    cache_salt=False,
    media=frozenset(),
    loads=False,
    kv_events=False,
)
"""What mlx-lm can be asked. Its protocol has no field for stop strings, several choices, constraints or media."""


def _model(message: bytes) -> ModelInfo:
    info = parse(pb.GetModelInfoResponse, message)
    return ModelInfo(
        model=info.served_model_name or info.model_path,
        tokenizer_path=info.model_path,
        context_length=info.max_context_length,
        vocab_size=info.vocab_size,
        eos_token_ids=tuple(info.eos_token_ids),
    )


def _facts(message: bytes) -> EngineFacts:
    info = parse(pb.GetServerInfoResponse, message)
    return attrs.evolve(FACTS, process=ProcessFacts(uptime_s=info.uptime_seconds))


HEALTH = health_call(SERVICE, pb.HealthCheckResponse)
MODEL = Unary(f"/{SERVICE}/GetModelInfo", b"", _model)
DESCRIBES = Unary(f"/{SERVICE}/GetServerInfo", b"", _facts)
TOKENIZER = tokenizer_call(SERVICE)


def abort(request_id: str) -> Unary[None]:
    """Ends a request by name."""
    return Unary(f"/{SERVICE}/Abort", pb.AbortRequest(request_ids=[request_id]).SerializeToString(), lambda _: None)
