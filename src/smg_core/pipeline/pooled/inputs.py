"""Makes of the inputs of a pooled request the ids that engines are sent, and checks them.

An input is the ids that /tokenize gives for the same text, with the tokens that the tokenizer adds before and after a text. What
engines crash on is refused here: inputs without ids, ids outside of the vocabulary, inputs over the context. Pure; encoding takes
long for long texts, so `pooling` calls it in a thread then. Below: the tokenizer.
"""

from collections.abc import Sequence

from smg_core.errors import InputTooLong, InvalidRequest
from smg_core.pipeline.prompt.prepare import text_frame
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.pipeline.settings import PoolingConfig
from smg_core.request import PoolInput, PoolRequest
from smg_core.tokenizer.base import GivenUp, Tokenizer, left_before_encoded
from smg_core.tokens import TokenIds

__all__ = ["check_count", "given_inputs", "ids_of", "input_characters", "reckoned"]

_NOTHING = TokenIds()
CHARACTERS = 4


def check_count(request: PoolRequest, settings: PoolingConfig) -> None:
    """Refuse a request with too many inputs."""
    count = len(request.inputs)
    if count > settings.inputs:
        raise InvalidRequest(
            f"Invalid 'inputs': too many inputs. Expected at most {settings.inputs}, but got {count} instead.",
            param="inputs",
            code="array_above_max_length",
        )


def input_characters(request: PoolRequest) -> int:
    """How long its inputs are, all together: characters of texts, and ids. Of pairs every text counts as often as it is read."""
    if request.kind == "embed" or not request.pairs:
        return sum(map(len, request.inputs))
    return sum(len(request.inputs[place]) for pair in request.pairs for place in pair)


def ids_of(
    request: PoolRequest, model: ServedModel, settings: PoolingConfig, given_up: GivenUp | None = None
) -> tuple[TokenIds, ...]:
    """The ids of each input, in order. Raises InvalidRequest that names the input, and ClientGone when `given_up` says that
    nobody waits any more."""
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise AssertionError("the engines of a model without a tokenizer are sent what the client gave")
    frame = text_frame(tokenizer) if request.add_special_tokens else (_NOTHING, _NOTHING)
    prefixes = _prefixes(request, model, settings)
    found: list[TokenIds] = []
    total = 0
    for place, (prefix, each) in enumerate(zip(prefixes, request.inputs, strict=True)):
        if given_up is not None and given_up():
            raise left_before_encoded()
        param = f"inputs[{place}]"
        if given_up is not None and isinstance(each, str):  # here one may be very long
            _refuse_long_text(each, request, model, tokenizer, param)
        ids = _ids(each, request, model, tokenizer, frame, param, prefix)
        found.append(ids)
        total += len(ids)
        if total > settings.tokens:
            raise InvalidRequest(
                f"Invalid 'inputs': the inputs have more than {settings.tokens} tokens together, which is the most that one "
                "request may have.",
                param="inputs",
                code="max_tokens_per_request",
            )
    return tuple(found)


def given_inputs(request: PoolRequest, model: ServedModel, settings: PoolingConfig) -> tuple[PoolInput, ...]:
    """The inputs as an engine is sent them that reads texts itself: with the words for their task. Raises InvalidRequest for one
    that is empty."""
    prefixes = _prefixes(request, model, settings)
    for place, each in enumerate(request.inputs):
        if not each:
            raise InvalidRequest(
                f"Invalid 'inputs[{place}]': it is empty.", param=f"inputs[{place}]", code="empty_string"
            )
    pairs = zip(prefixes, request.inputs, strict=True)
    return tuple([prefix + each if isinstance(each, str) else each for prefix, each in pairs])


def _prefixes(request: PoolRequest, model: ServedModel, settings: PoolingConfig) -> Sequence[str]:
    """The words before each input, for its task."""
    name, count = model.primary or model.name, len(request.inputs)
    tasks = request.tasks if len(request.tasks) == count else request.tasks * count or ("",) * count
    return [settings.prefix(name, each) if each else "" for each in tasks]


def reckoned(given: PoolInput) -> int:
    """About how many tokens an input has that only its engine encodes."""
    return max(1, len(given) // CHARACTERS) if isinstance(given, str) else len(given)


def _ids(
    given: PoolInput,
    request: PoolRequest,
    model: ServedModel,
    tokenizer: Tokenizer,
    frame: tuple[TokenIds, TokenIds],
    param: str,
    prefix: str,
) -> TokenIds:
    """The ids of one input, cut if the request asks for that."""
    context, (before, after) = model.context_length, frame
    if isinstance(given, str):
        if not given:
            raise InvalidRequest(f"Invalid '{param}': the text is empty.", param=param, code="empty_string")
        ids = tokenizer.encode(prefix + given if prefix else given)
    else:
        ids = _checked(given, model.vocab_size, param)
        before = after = _NOTHING  # who sends ids has written all of them
    if (most := _most(request.truncate, context)) is not None:
        ids = _cut(ids, max(1, most - len(before) - len(after)), request.truncate_side)
    if before or after:
        ids = before + ids + after
    if context and len(ids) > context:
        raise InputTooLong(len(ids), context, param=param)
    return ids


def _most(asked: int | None, context: int) -> int | None:
    """The tokens that an input may keep; None where it is not to be cut."""
    if asked is None or asked == -1:
        return None if asked is None else context or None
    return min(asked, context) if context else asked


def _refuse_long_text(text: str, request: PoolRequest, model: ServedModel, tokenizer: Tokenizer, param: str) -> None:
    """Refuse a text that has too many characters for the context, before it is encoded, which takes long."""
    context = model.context_length
    if request.truncate is not None or not context or len(text) <= context:
        return
    longest = tokenizer.longest_token
    if longest and len(text) > longest * context:
        raise InputTooLong(-(-len(text) // longest), context, param=param, at_least=True)


def _checked(given: Sequence[int], size: int, param: str) -> TokenIds:
    if not given:
        raise InvalidRequest(f"Invalid '{param}': it has no token ids.", param=param, code="empty_array")
    if min(given) < 0 or max(given) >= size:
        raise InvalidRequest(f"Invalid '{param}': token ids must be between 0 and {size - 1}.", param=param)
    return TokenIds(given)


def _cut(ids: TokenIds, room: int, side: str) -> TokenIds:
    """The `room` ids that stay of an input whose other end is cut off."""
    if len(ids) <= room:
        return ids
    return ids[:room] if side == "end" else ids[len(ids) - room :]
