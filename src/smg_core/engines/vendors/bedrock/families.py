"""The special features of each family of models on Bedrock.

Pure: by the name of the model alone. Above: converse_body. Below: the facts of Anthropic's models.
"""

import attrs

from smg_core.engines.vendors.anthropic.facts import ModelFacts, named_facts

__all__ = ["ModelFamily", "bedrock_family"]


@attrs.frozen
class ModelFamily:
    """`claude` has the facts of a model of Anthropic, None for others. `one_tool`: one tool can be demanded by name; `statuses`:
    results of tools say whether they failed; `caches`: marks for the cache are taken; `structured`: it is held to a schema;
    `moving`: it takes clips and recordings; `prefill`: a talk may end with the assistant; `sampling`: it takes temperature,
    top_p and top_k. `top_k` and `effort` are where these are written in the model's own fields, () where it has none; `efforts`
    are the words for how much to reason."""

    name: str
    claude: ModelFacts | None = None
    one_tool: bool = False
    statuses: bool = False
    caches: bool = False
    structured: bool = False
    moving: bool = False
    prefill: bool = False
    sampling: bool = True
    top_k: tuple[str, ...] = ()
    effort: tuple[str, ...] = ()
    efforts: tuple[str, ...] = ()


_OTHER = ModelFamily("other")
_NOVA = ModelFamily(
    "nova",
    one_tool=True,
    statuses=True,
    caches=True,
    moving=True,
    top_k=("inferenceConfig", "topK"),
    effort=("reasoningConfig", "maxReasoningEffort"),
    efforts=("low", "medium", "high"),
)
_OPEN_WEIGHTS = ModelFamily("gpt-oss", structured=True, effort=("reasoning_effort",), efforts=("low", "medium", "high"))
_DEEPSEEK = ModelFamily("deepseek", effort=("reasoning_effort",), efforts=("low", "medium", "high"))


def bedrock_family(model: str) -> ModelFamily:
    """The family of a model, of its id, of an inference profile's or of an ARN that has one of these in it."""
    name = model.lower()
    if "anthropic." in name or "claude" in name:
        facts = named_facts(name)
        return ModelFamily(
            "claude",
            claude=facts,
            one_tool=True,
            statuses=True,
            caches=True,
            structured=facts.structured,
            prefill=facts.prefill,
            sampling=facts.sampling,
            top_k=("top_k",),
            efforts=facts.efforts,
        )
    if "amazon.nova" in name:
        return _NOVA
    if "gpt-oss" in name:
        return _OPEN_WEIGHTS
    if "deepseek" in name:
        return _OTHER if "deepseek.r1" in name else _DEEPSEEK
    return _OTHER
