"""The TokenSpeed dialect: `tokenspeed.grpc.scheduler.TokenSpeedScheduler`, as its servicer speaks it.

Decides how an `EngineRequest` is written and what the engine's messages mean; pure. Above: engines.token_ids.client joins it
with a transport. It does not know the socket, the public API or the tokenizer. The messages come from the package smg-grpc-proto.

Sampling fields have presence here. A call gives one choice; `engines.token_ids.fan_out` makes a call for each. The engine
leaves a stop token out of the ids unless it is told to keep it, which it always is: the gateway's reader expects it there.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import attrs

from smg_core.engines.base import Bootstrap, Encoded, EngineOutput, EngineRequest, OutputDecoder, Unary
from smg_core.engines.codecs.decoding import FINISH, Wording, decoder_of, matched_stop
from smg_core.engines.codecs.protobuf import any_of, float32, int32, tagged, uint32, uint64_seed, varints_of, within
from smg_core.engines.codecs.refusals import refusing
from smg_core.engines.codecs.shared_kv_events import kv_events_call
from smg_core.engines.codecs.shared_upkeep import upkeep_call
from smg_core.engines.codecs.tensors import BytesLike, concatenated
from smg_core.engines.codecs.tokenspeed import calls
from smg_core.engines.codecs.tokenspeed.media import TokenSpeedRequestMedia
from smg_core.engines.constraint import Constraint
from smg_core.engines.kv_events import KvEventBatch
from smg_core.engines.upkeep import Adapter, EngineReply, EngineTask
from smg_core.errors import UnsupportedParameter
from smg_core.events import FinishReason
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_engine_contract.engines import tokenspeed_scheduler_pb2 as pb

__all__ = ["TokenSpeedCodec"]

_MM_INPUTS = 9  # field number of GenerateRequest, for what is framed by hand
_PORT_BITS, _ROOM_BITS = 16, 63
_ANY_OBJECT = '{"type":"object"}'
_FINISH: dict[str, FinishReason] = {**FINISH, "tool_calls": "stop"}
_refuse = refusing(
    {
        *("constraint", "multimodal", "bootstrap", "encoded", "data_parallel_rank"),
        *("seed", "stop", "min_tokens", "logit_bias"),
    }
)


class TokenSpeedCodec:
    """TokenSpeed. Stateless: one instance serves every engine."""

    name = "tokenspeed"
    facts = calls.FACTS
    generate_path = f"/{calls.SERVICE}/Generate"
    health = calls.HEALTH
    model = calls.MODEL
    describes = calls.DESCRIBES
    loads = calls.LOADS
    tokenizer = calls.TOKENIZER
    adapters: Unary[tuple[Adapter, ...]] | None = None

    def generate(self, request: EngineRequest) -> bytes:
        """The GenerateRequest. Raises UnsupportedParameter or InvalidRequest naming a field that this dialect cannot express."""
        _refuse(request)
        message = pb.GenerateRequest(
            request_id=request.id,
            sampling_params=_sampling(request.sampling, request.constraint),
            stream=request.stream,
        )
        if (alternatives := request.sampling.logprobs) is not None:
            message.return_logprob = True
            message.top_logprobs_num = _alternatives(alternatives)
        if request.bootstrap is not None:
            message.kv_bootstrap_info.CopyFrom(_bootstrap(request.bootstrap))
        if request.encoded:
            message.encode_bootstrap_info.items.extend([_encoded(each) for each in request.encoded])
        if request.data_parallel_rank is not None:
            message.data_parallel_rank = request.data_parallel_rank
        tokenized = tagged(calls.INPUT_IDS, varints_of(request.input_ids))
        media = _media(request.multimodal, frozenset(each.item for each in request.encoded))
        return concatenated((message.SerializeToString(), tagged(calls.TOKENIZED, tokenized), *media))

    def decoder(self, request: EngineRequest) -> OutputDecoder:
        stops = request.sampling.stop_token_ids
        return decoder_of(_WORDING if not stops else _wording(stops), request)

    def abort(self, request_id: str) -> Unary[None]:
        return calls.abort(request_id)

    def embed(self, request_id: str, ids: TokenIds, types: Sequence[int] = ()) -> None:
        return None

    def kv_events(self, after: int | None) -> Unary[Iterator[KvEventBatch]]:
        return kv_events_call(calls.SERVICE, after)

    def encode(self, request_id: str, media: object, item: Encoded) -> Unary[None]:
        """Has an encode worker make the embeddings of one item of `media` and keep them in its room."""
        if not isinstance(media, TokenSpeedRequestMedia):
            raise UnsupportedParameter("These media were not prepared for this engine.", param="messages")
        room = within(_ROOM_BITS, item.place.room, "a room at the encode worker")
        return calls.encode_item(request_id, media.only(item.item).message(), room)

    def upkeep(self, asked: EngineTask) -> Unary[EngineReply] | None:
        return upkeep_call(calls.SERVICE, asked)


# --------------------------------------------------------------------------------------------------------- what is sent


def _sampling(asked: Sampling, constraint: Constraint | None) -> pb.SamplingParams:
    out = pb.SamplingParams(
        skip_special_tokens=asked.skip_special_tokens, spaces_between_special_tokens=True, n=1, no_stop_trim=True
    )
    for name in (
        "temperature",
        "top_p",
        "min_p",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
    ):
        if (value := getattr(asked, name)) is not None:
            setattr(out, name, float32(f"sampling.{name}", value))
    if asked.top_k is not None:
        out.top_k = int32("sampling.top_k", asked.top_k) or -1  # -1 is all tokens
    if asked.max_tokens is not None:
        out.max_new_tokens = uint32("sampling.max_tokens", asked.max_tokens)
    _ends_and_biases(out, asked)
    if constraint is not None:
        _constrain(out, constraint)
    return out


def _ends_and_biases(out: pb.SamplingParams, asked: Sampling) -> None:
    """Write the fields that most requests do not set."""
    if asked.min_tokens:
        out.min_new_tokens = uint32("sampling.min_tokens", asked.min_tokens)
    if asked.seed is not None:
        out.sampling_seed = uint64_seed("sampling.seed", asked.seed)
    if asked.stop:
        out.stop.extend(asked.stop)
    if asked.stop_token_ids:
        out.stop_token_ids.extend([uint32("sampling.stop_token_ids", token) for token in asked.stop_token_ids])
    if asked.ignore_eos:
        out.ignore_eos = True
    for token, bias in (asked.logit_bias or {}).items():
        out.logit_bias[str(uint32("sampling.logit_bias", token))] = float32("sampling.logit_bias", bias)


def _constrain(out: pb.SamplingParams, constraint: Constraint) -> None:
    """Any JSON object is a schema here, and a choice a regular expression."""
    if constraint.kind not in calls.FACTS.constraints:
        raise UnsupportedParameter(f"This engine knows no constraint {constraint.kind!r}.", param="response_format")
    if constraint.kind == "json_object":
        out.json_schema = _ANY_OBJECT
    elif constraint.kind == "choice":
        out.regex = any_of(constraint.choices)
    elif constraint.kind == "grammar":
        out.ebnf_grammar = constraint.value
    else:
        setattr(out, constraint.kind, constraint.value)


def _alternatives(count: int) -> int:
    if count < 0:
        raise UnsupportedParameter("logprobs must be a number of alternatives here.", param="sampling.logprobs")
    return int32("sampling.logprobs", count)


def _bootstrap(place: Bootstrap) -> pb.KvBootstrapInfo:
    return pb.KvBootstrapInfo(
        bootstrap_host=place.host,
        bootstrap_port=within(_PORT_BITS, place.port, "a port"),
        bootstrap_room=within(_ROOM_BITS, place.room, "a room at the bootstrap server"),
    )


def _encoded(item: Encoded) -> pb.EncodeItemBootstrapInfo:
    return pb.EncodeItemBootstrapInfo(
        item_index=item.item,
        bootstrap_host=item.place.host,
        bootstrap_port=within(_PORT_BITS, item.place.port, "a port"),
        bootstrap_room=within(_ROOM_BITS, item.place.room, "a room at the encode worker"),
    )


def _media(multimodal: object, encoded: Collection[int]) -> list[BytesLike]:
    """The field that holds the media of the prompt; the items whose numbers are in `encoded` come without their pixels."""
    if multimodal is None:
        return []
    if not isinstance(multimodal, TokenSpeedRequestMedia):
        raise UnsupportedParameter("These media were not prepared for this engine.", param="messages")
    return multimodal.message(without=encoded).tagged(_MM_INPUTS)


# ---------------------------------------------------------------------------------------------------- what comes back


def _completed(complete: pb.GenerateComplete, *, take_ids: bool, stops: Collection[int] = ()) -> EngineOutput:
    return EngineOutput(
        index=complete.index,
        ids=complete.output_ids[:] if take_ids else (),
        finish=_FINISH.get(complete.finish_reason, "error"),
        matched=matched_stop(complete, stops),
        prompt_tokens=complete.prompt_tokens,
        cached_tokens=complete.cached_tokens,
    )


_WORDING = Wording(
    response=pb.GenerateResponse.FromString,
    chunk=pb.GenerateStreamChunk.FromString,
    completed=_completed,
    chunk_field=2,
    names_request=True,
)


def _wording(stops: Collection[int]) -> Wording:
    return attrs.evolve(_WORDING, completed=partial(_completed, stops=frozenset(stops)))
