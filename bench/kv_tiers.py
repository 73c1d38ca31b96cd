"""`bench kv-tiers`: what tiers of KV cache below the accelerator's memory give.

Simulated replicas of Llama 3.1 8B answer the same requests with different tiers, in virtual time. A
request goes to the replica with the fewest requests, so that a conversation moves between them.
Prompts are longer in total than what the accelerators hold. The answer of a turn counts as new
tokens of the next prompt. No launcher deletes files.
"""

import json
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gke_inference.intent.settings import KvOffload, SharedTier
from gke_inference.serving.kv.offload import offload_flag
from planner.speed.kv_tiers import (
    lustre_bytes_per_second,
    network_bytes_per_second,
    share_bytes_per_second,
)
from simulator.engine.replay import Replay, TraceRequest, least_request, replay
from simulator.engine.settings import Deployment, deploy
from twin.engines.vllm_flags import parse
from workloads.engine.spec import KV_DISK, KV_SHARED

Row = dict[str, Any]
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
_SEED = 7
_SHARE = SharedTier(gib=900)
_MIB = 2**20


@dataclass(frozen=True)
class Arm:
    """One set of tiers."""

    name: str
    offload: KvOffload | None = None
    share_bytes_per_s: float = 0.0
    """Bandwidth of the shared instance, for all replicas together."""


@dataclass(frozen=True)
class Fleet:
    """Replicas of one chip each, and their load."""

    chip: str
    machine: str
    """Machine type, whose network limits what a replica reads from a share."""
    replicas: int
    talks: int
    """Conversations."""
    papers: int
    """Long documents."""
    arms: tuple[Arm, ...]


def _filestore(capacity_gib: int) -> float:
    return share_bytes_per_second("zonal", capacity_gib)


_LUSTRE = lustre_bytes_per_second(1000, 9000)
"""The smallest instance, of the fastest tier."""
_NONE = Arm("none")
FLEETS = (
    Fleet(
        "nvidia-l4",
        "g2-standard-8",
        4,
        30,
        6,
        (
            _NONE,
            Arm("memory 4 GiB", KvOffload(cpu_gib=4)),
            Arm("memory 12 GiB", KvOffload(cpu_gib=12)),
            Arm(
                "memory 12 GiB, Filestore 1 TiB",
                KvOffload(cpu_gib=12, shared=_SHARE),
                _filestore(1024),
            ),
            Arm(
                "memory 12 GiB, Filestore 10 TiB",
                KvOffload(cpu_gib=12, shared=_SHARE),
                _filestore(10_240),
            ),
            Arm(
                "memory 12 GiB, Lustre 9,000 GiB",
                KvOffload(cpu_gib=12, shared=_SHARE),
                _LUSTRE,
            ),
        ),
    ),
    Fleet(
        "nvidia-h100-80gb",
        "a3-highgpu-1g",
        2,
        120,
        30,
        (
            _NONE,
            Arm("memory 48 GiB", KvOffload(cpu_gib=48)),
            Arm("memory 128 GiB", KvOffload(cpu_gib=128)),
            Arm("memory 48 GiB, local SSD", KvOffload(cpu_gib=48, disk_gib=500)),
            Arm(
                "memory 48 GiB, Lustre 9,000 GiB",
                KvOffload(cpu_gib=48, shared=_SHARE),
                _LUSTRE,
            ),
        ),
    ),
)
"""KV cache in the accelerator's own memory: about 4 GiB on L4, 50 GiB on H100."""


def conversations(count: int, turns: int = 6, tokens: int = 2000) -> list[TraceRequest]:
    """Return conversations with 40 s between turns; each turn adds tokens to the prompt."""
    choose = random.Random(_SEED)  # noqa: S311 - arrivals, not secrets
    made: list[TraceRequest] = []
    for number in range(count):
        begun = choose.uniform(0, 100)
        for turn in range(1, turns + 1):
            size = turn * tokens
            arrival = begun + 40 * (turn - 1)
            made.append(TraceRequest(arrival, size, 200, f"talk {number}", size))
    return made


def documents(count: int, questions: int = 4, tokens: int = 30_000) -> list[TraceRequest]:
    """Return questions about long documents, each document at random times."""
    choose = random.Random(_SEED)  # noqa: S311 - arrivals, not secrets
    return [
        TraceRequest(choose.uniform(0, 300), tokens + 200, 200, f"document {number}", tokens)
        for number in range(count)
        for _ in range(questions)
    ]


def tier_rows() -> Iterator[Row]:
    """Yield the latencies of each arm, and their ratios to the arm without tiers."""
    for fleet in FLEETS:
        workloads = {
            "conversations": conversations(fleet.talks),
            "documents": documents(fleet.papers),
        }
        for workload, trace in workloads.items():
            base: Row | None = None
            for arm in fleet.arms:
                with tempfile.TemporaryDirectory() as folder:
                    deployments = _deployments(fleet, arm, Path(folder))
                    found = replay(trace, deployments, least_request())
                row: Row = {"chip": fleet.chip, "workload": workload, **_row(arm, found)}
                base = base or row
                for name in ("ttft_mean_ms", "ttft_p95_ms"):
                    row[f"{name}_ratio"] = round(row[name] / base[name], 2)
                yield row


def _deployments(fleet: Fleet, arm: Arm, folder: Path) -> list[Deployment]:
    """Return the replicas: each with its own disk, and all with the same share."""
    made: list[Deployment] = []
    # the replicas share what the instance reads
    each = arm.share_bytes_per_s / fleet.replicas
    rate = min(each, network_bytes_per_second(fleet.machine))
    for number in range(fleet.replicas):
        # large blocks, as each is a file
        flags = [MODEL, "--max-model-len=32768", "--block-size=128"]
        mounts = {KV_DISK: folder / f"disk-{number}", KV_SHARED: folder / "share"}
        if arm.offload is not None:
            flags.append(offload_flag(arm.offload, f"{KV_SHARED}/llama"))
        environment = {
            "GKE_INFERENCE_SIM_ACCELERATOR": fleet.chip,
            "GKE_INFERENCE_SIM_CHIPS": "1",
            "GKE_INFERENCE_SIM_MOUNTS": json.dumps({at: str(to) for at, to in mounts.items()}),
            "GKE_INFERENCE_SIM_SHARE_MIB_PER_S": str(rate / _MIB),
        }
        made.append(deploy(parse(flags), environment))
    return made


def _row(arm: Arm, found: Replay) -> Row:
    firsts = sorted(each.ttft for each in found.outcomes if each.ttft is not None)
    prompts = sum(each.request.prompt_tokens for each in found.outcomes)
    device = sum(each.cached_tokens for each in found.outcomes)
    lower = sum(each.loaded_tokens for each in found.outcomes)
    return {
        "tiers": arm.name,
        "requests": len(found.outcomes),
        "answered": len(firsts),
        "device_hits_percent": round(100 * device / prompts),
        "tier_hits_percent": round(100 * lower / prompts),
        "ttft_mean_ms": round(1000 * sum(firsts) / len(firsts)),
        "ttft_p95_ms": round(1000 * firsts[int(0.95 * (len(firsts) - 1))]),
        "output_tokens_per_s": round(found.output_tokens_per_second),
    }
