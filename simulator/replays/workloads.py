"""The workloads of replays and of the routing laboratory: replicas, requests and SLOs."""

from collections.abc import Callable
from dataclasses import dataclass, field

from gke_inference.catalogue.prices import price
from simulator.replays.picker_configs import Facts
from simulator.replays.replica_spec import ReplicaSpec
from simulator.traffic import Slo, Trace, mixed_lengths, multi_adapter, shared_prefix

REGION = "us-central1"
MODEL = "model"
"""Model name in requests."""


@dataclass(frozen=True)
class StageSpec:
    """A stage with a request rate and a duration."""

    rate: float
    seconds: float
    is_warm_up: bool = False
    """Whether it only fills caches and is not measured."""


@dataclass(frozen=True)
class Workload:
    """Replicas and their requests."""

    name: str
    about: str
    """Description in one line."""
    replicas: tuple[ReplicaSpec, ...]
    stages: tuple[StageSpec, ...]
    quick_stages: tuple[StageSpec, ...]
    make: Callable[[StageSpec, int], Trace]
    """Creates the trace of a stage; the second argument is the seed."""
    slo: Slo
    facts: Facts = field(default_factory=Facts)
    seeds: tuple[int, ...] = tuple(range(1, 9))

    @property
    def usd_per_hour(self) -> float:
        """On-demand list price of all replicas in `REGION`."""
        return sum(replica.usd_per_hour for replica in self.replicas)


def price_of(name: str, machine_type: str, share: float = 1.0) -> float:
    """Return the list price of a machine, or of a fraction of it.

    Raises:
        ValueError: the price is unknown.
    """
    found = price(name, REGION, "on-demand", machine_type=machine_type)
    if found is None:
        raise ValueError(f"no price is known for {machine_type} in {REGION}")
    return found.usd_per_hour * share


def _h100_pair() -> ReplicaSpec:
    flags = ("--tensor-parallel-size=2", "--max-model-len=40960")
    cost = price_of("nvidia-h100-80gb", "a3-highgpu-8g", 2 / 8)
    return ReplicaSpec("nvidia-h100-80gb", 2, "Qwen/Qwen3-32B", flags, usd_per_hour=cost)


def _l4(*flags: str, slowdown: float = 1.0) -> ReplicaSpec:
    cost = price_of("nvidia-l4", "g2-standard-12")
    flags = ("--max-model-len=16384", *flags)
    return ReplicaSpec("nvidia-l4", 1, "meta-llama/Llama-3.1-8B", flags, slowdown, cost)


def _v6e(chips: int = 4) -> ReplicaSpec:
    cost = price_of("tpu-v6e", "ct6e-standard-4t")
    flags = (f"--tensor-parallel-size={chips}", "--max-model-len=16384")
    return ReplicaSpec("tpu-v6e-slice", chips, "meta-llama/Llama-3.1-8B", flags, usd_per_hour=cost)


def _ladder(stage: StageSpec, seed: int) -> Trace:
    asks = shared_prefix(rate=stage.rate, seconds=stage.seconds, seed=seed, model=MODEL)
    return Trace.merge("shared_prefix", asks)


def _shared_prefix() -> Workload:
    """Seven rates of llm-d's ladder (guides/optimized-baseline/benchmark-templates/guide.yaml)."""
    rates = ((3, 20), (10, 20), (15, 20), (20, 38), (30, 25), (40, 38), (60, 25))
    warm_up = StageSpec(15, 50, is_warm_up=True)
    return Workload(
        "shared_prefix",
        "150 groups of users with a 6,000-token system prompt each, 1,200 tokens of their own, "
        "1,000 tokens of answer; Qwen3-32B on 8 x 2 H100",
        (_h100_pair(),) * 8,
        (warm_up, *(StageSpec(rate, seconds) for rate, seconds in rates)),
        (StageSpec(15, 25, is_warm_up=True), StageSpec(3, 10), StageSpec(60, 15)),
        _ladder,
        Slo(ttft_ms=2000, tpot_ms=100),
    )


def _documents(stage: StageSpec, seed: int) -> Trace:
    """Questions about long documents with one system prompt, and short chats between them."""
    share, rest = 0.6, 0.4
    documents = shared_prefix(
        rate=stage.rate * share, seconds=stage.seconds, seed=seed, model=MODEL, groups=40,
        prompts_per_group=6, prefix_tokens=16_000, question_tokens=200, output_tokens=300,
        texts="documents",
    )  # fmt: skip
    chats = mixed_lengths(
        rate=stage.rate * rest, seconds=stage.seconds, seed=seed, model=MODEL,
        prompts=[(0.7, 100, 1000), (0.3, 1000, 4000)], outputs=[(1, 100, 500)],
    )  # fmt: skip
    return Trace.merge("long_context", documents, chats)


def _long_context() -> Workload:
    return Workload(
        "long_context",
        "questions about 40 documents of 16,000 tokens (60 %) between chats of 100 to 4,000 "
        "tokens; Qwen3-32B on 4 x 2 H100",
        (_h100_pair(),) * 4,
        (StageSpec(4, 40, is_warm_up=True), StageSpec(4, 40), StageSpec(10, 40)),
        (StageSpec(4, 20, is_warm_up=True), StageSpec(10, 15)),
        _documents,
        Slo(ttft_ms=5000, tpot_ms=100),
    )


ADAPTERS = tuple(f"adapter-{number:02d}" for number in range(20))
LORA_SKEW, LORA_PROMPT, LORA_ANSWER = 0.8, 400, 150
"""Exponent of the adapters' popularity; tokens of a prompt and of an answer."""


def _adapters(stage: StageSpec, seed: int) -> Trace:
    asks = multi_adapter(
        rate=stage.rate, seconds=stage.seconds, seed=seed, adapters=ADAPTERS,
        skew=LORA_SKEW, prompt_tokens=LORA_PROMPT, output_tokens=LORA_ANSWER,
    )  # fmt: skip
    return Trace.merge("lora", asks)


def _lora() -> Workload:
    modules = tuple(f"{name}=gs://adapters/{name}" for name in ADAPTERS)
    flags = ("--enable-lora", "--max-loras=4", "--max-cpu-loras=8", "--lora-modules", *modules)
    return Workload(
        "lora",
        "20 LoRA adapters of one model, popular ones more often, 4 slots a replica; "
        "Llama 3.1 8B on 8 L4",
        (_l4(*flags),) * 8,
        (StageSpec(8, 30, is_warm_up=True), StageSpec(12, 40), StageSpec(24, 40)),
        (StageSpec(8, 15, is_warm_up=True), StageSpec(24, 20)),
        _adapters,
        Slo(ttft_ms=3000, tpot_ms=150),
        Facts(has_adapters=True),
    )


_CHATS = ((0.5, 50, 300), (0.35, 300, 1500), (0.15, 2000, 6000))
_ANSWERS = ((0.6, 20, 150), (0.4, 150, 600))


def _unshared(stage: StageSpec, seed: int) -> Trace:
    asks = mixed_lengths(
        rate=stage.rate, seconds=stage.seconds, seed=seed, model=MODEL, prompts=_CHATS,
        outputs=_ANSWERS,
    )  # fmt: skip
    return Trace.merge("mixed_lengths", asks)


def _mixed_lengths() -> Workload:
    return Workload(
        "mixed_lengths",
        "prompts of 50 to 6,000 tokens that share nothing, answers of 20 to 600; "
        "Llama 3.1 8B on 8 L4",
        (_l4(),) * 8,
        (StageSpec(8, 40), StageSpec(16, 40)),
        (StageSpec(16, 15),),
        _unshared,
        Slo(ttft_ms=3000, tpot_ms=150),
    )


def _one_slow_replica() -> Workload:
    return Workload(
        "one_slow_replica",
        "the same requests, while one of the eight takes three times as long for each step",
        (_l4(slowdown=3.0), *(_l4(),) * 7),
        (StageSpec(6, 40), StageSpec(12, 40)),
        (StageSpec(12, 15),),
        _unshared,
        Slo(ttft_ms=3000, tpot_ms=150),
    )


def _unequal(stage: StageSpec, seed: int) -> Trace:
    """Half of the requests from groups with a system prompt, half unrelated."""
    grouped = shared_prefix(
        rate=stage.rate / 2, seconds=stage.seconds, seed=seed, model=MODEL, groups=30,
        prompts_per_group=20, prefix_tokens=1500, question_tokens=150, output_tokens=200,
        texts="unequal",
    )  # fmt: skip
    single = mixed_lengths(
        rate=stage.rate / 2, seconds=stage.seconds, seed=seed, model=MODEL, prompts=_CHATS,
        outputs=_ANSWERS,
    )  # fmt: skip
    return Trace.merge("unequal_hardware", grouped, single)


def _unequal_hardware() -> Workload:
    return Workload(
        "unequal_hardware",
        "chats on two TPU v6e-4 and four L4 in one pool, half of them with shared system prompts; "
        "Llama 3.1 8B",
        (*(_v6e(),) * 2, *(_l4(),) * 4),
        (
            StageSpec(20, 15, is_warm_up=True),
            StageSpec(20, 20),
            StageSpec(60, 20),
            StageSpec(100, 15),
        ),
        (StageSpec(20, 10, is_warm_up=True), StageSpec(100, 10)),
        _unequal,
        Slo(ttft_ms=3000, tpot_ms=100),
    )


def workloads() -> dict[str, Workload]:
    """Return all workloads by name."""
    made = (
        _shared_prefix(), _long_context(), _lora(), _mixed_lengths(), _one_slow_replica(),
        _unequal_hardware(),
    )  # fmt: skip
    return {workload.name: workload for workload in made}
