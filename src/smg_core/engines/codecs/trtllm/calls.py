"""The calls of the TensorRT-LLM dialect beside Generate: health, the model, the tokenizer, abort.

Decides which method each call is and what its reply means; pure. Above: `codec`, which offers them. The messages come from the
package smg-grpc-proto. GetServerInfo has versions and sizes of parallelism, which the gateway does not need, so all facts are
those of the table. GetModelInfo has no name but the model's path. The vocabulary that it reports lacks the added tokens, so it is
left to the tokenizer.
"""

from smg_core.engines.base import EngineFacts, ModelInfo, Unary
from smg_core.engines.codecs.answers import parse
from smg_core.engines.codecs.shared_calls import tokenizer_call
from smg_engine_contract.engines import trtllm_service_pb2 as pb

__all__ = ["FACTS", "HEALTH", "INPUT_IDS", "MODEL", "SERVICE", "TOKENIZED", "TOKENIZER", "abort"]

SERVICE = "trtllm.TrtllmService"

TOKENIZED, INPUT_IDS = 2, 2
"""Field numbers of GenerateRequest, and of TokenizedInput, for what is framed by hand."""

_WELL = "OK"

FACTS = EngineFacts(
    dialect="trtllm",
    greedy_n=False,
    logit_bias=False,
    stop_strings=False,
    constraints=frozenset({"json_schema", "json_object", "regex", "grammar", "structural_tag", "choice"}),
    max_logprobs=None,
    prompt_logprobs=False,
    cache_salt=False,
    media=frozenset({"image"}),
    loads=False,
    hands_over="context_phase",
    lora=True,
)
"""What TensorRT-LLM can be asked. It looks for stop strings among tokens, where a string has many spellings, so the gateway looks
for them in the text. Its protocol has a bias for every token of the vocabulary or for none, and its servicer does not say which
token of the prompt a logprob belongs to, passes no salt on to the cache, and answers that it has no embeddings."""


def _health(message: bytes) -> bool:
    return bool(parse(pb.HealthCheckResponse, message).status == _WELL)


def _model(message: bytes) -> ModelInfo:
    info = parse(pb.GetModelInfoResponse, message)
    return ModelInfo(
        model=info.model_id,
        tokenizer_path=info.model_id,
        context_length=info.max_seq_len or info.max_input_len,
    )


HEALTH = Unary(f"/{SERVICE}/HealthCheck", b"", _health)
MODEL = Unary(f"/{SERVICE}/GetModelInfo", b"", _model)
TOKENIZER = tokenizer_call(SERVICE)


def abort(request_id: str) -> Unary[None]:
    """Ends a request by name."""
    return Unary(f"/{SERVICE}/Abort", pb.AbortRequest(request_id=request_id).SerializeToString(), lambda _: None)
