"""Replay of a published cluster measurement: llm-d's ladder of rates, round robin and routing.

Eight replicas of Qwen3-32B on two H100 each; 150 prefixes of 6,000 tokens with 5 questions of 1,200
each, 1,000 output tokens; Poisson arrivals; a warm-up and 16 stages, each after the previous one
has drained. Workload: llm-d/llm-d @1eb1d99
guides/optimized-baseline/benchmark-templates/guide.yaml. `data/ladder.csv` has the results of two
separate runs that llm-d published.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from simulator.engine.compiled import CompiledCluster
from simulator.engine.replay import TraceRequest
from simulator.engine.settings import PREFIX, Deployment, deploy
from simulator.replays.modelled_picker import ModelledPicker
from simulator.replays.picker_configs import Facts, shipped
from simulator.replays.planning import requests_of
from simulator.replays.workloads import MODEL, StageSpec, workloads
from twin.engines.vllm_flags import parse

_PUBLISHED = Path(__file__).parent / "data" / "ladder.csv"
_REPLICAS = 8
_WARM_UP = (15, 50)
_SEED = 9
STAGES = (
    (3, 20), (10, 20), (15, 20), (20, 38), (22, 34), (25, 30), (30, 25), (35, 21), (40, 38),
    (43, 36), (46, 33), (49, 30), (52, 29), (55, 27), (57, 26), (60, 25),
)  # fmt: skip
"""Requests per second, and seconds."""


@dataclass(frozen=True)
class Stage:
    """Published and replayed results of one rate with one routing."""

    rate: int
    routing: str
    published: tuple[float, ...]
    """Output tokens per second of each published run with this rate."""
    simulated: float
    published_ttft: float | None
    """Mean of the first run, in seconds."""
    ttft: float
    tpot: float
    prefix_hit_ratio: float
    preemptions: int

    @property
    def error(self) -> float:
        """Simulated over the mean of the published runs, minus one."""
        return self.simulated / (sum(self.published) / len(self.published)) - 1


def replica() -> Deployment:
    """Return one of the eight replicas."""
    arguments = ["Qwen/Qwen3-32B", "--tensor-parallel-size=2", "--max-model-len=16000"]
    hardware = {PREFIX + "ACCELERATOR": "nvidia-h100-80gb", PREFIX + "CHIPS": "2"}
    return deploy(parse(arguments), hardware)


def published() -> dict[tuple[str, int], tuple[tuple[float, ...], float | None]]:
    """Return output tokens per second of each run, and the mean TTFT if published."""
    found: dict[tuple[str, int], tuple[tuple[float, ...], float | None]] = {}
    with _PUBLISHED.open(newline="") as file:
        for row in csv.DictReader(file):
            key = (row["routing"], int(row["rate"]))
            rates, ttft = found.get(key, ((), None))
            if row["ttft_mean_s"]:
                ttft = float(row["ttft_mean_s"])
            found[key] = ((*rates, float(row["output_tokens_per_second"])), ttft)
    return found


def climb(
    routing: str,
    stages: tuple[tuple[int, int], ...] = STAGES,
    warm_up: tuple[int, int] = _WARM_UP,
) -> Iterator[Stage]:
    """Replay the stages one after another and yield each.

    Args:
        routing: `round-robin`, or `prefix-affine`: the modeled picker as it is shipped.
        stages: (requests per second, seconds) of each stage.
        warm_up: the same for the warm-up, which is not measured.
    """
    picker = ModelledPicker(shipped(Facts()), _SEED).settings
    routes = {"round-robin": "round-robin", "prefix-affine": picker}
    cluster = CompiledCluster([replica()] * _REPLICAS, routes[routing])
    cluster.play(_requests(*warm_up))
    known = published()
    for rate, seconds in stages:
        result = cluster.play(_requests(rate, seconds))
        rates, ttft = known[routing, rate]
        yield Stage(
            rate=rate,
            routing=routing,
            published=rates,
            simulated=result.output_tokens_per_second,
            published_ttft=ttft,
            ttft=result.mean_ttft(),
            tpot=result.mean_tpot(),
            prefix_hit_ratio=result.prefix_hit_ratio or 0.0,
            preemptions=sum(outcome.preemptions for outcome in result.outcomes),
        )


def _requests(rate: int, seconds: int) -> list[TraceRequest]:
    """Return a stage's requests: those of the laboratory's workload."""
    return requests_of(workloads()["shared_prefix"].make(StageSpec(rate, seconds), _SEED), MODEL)
