"""Two clients of one pool in real time: what one of them waits when the other sends ten times more.

The picker, its queues and Envoy are the real programs. Lockstep cannot be used, since requests that
wait in the picker's queues by design look like requests that it has not processed yet.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.laboratory.policies import Policy
from bench.laboratory.realtime import RealTime, behind_gateway
from gke_inference.gateway.picker_config import FlowControl, picker_config
from simulator.replays.replica_spec import ReplicaSpec
from simulator.replays.workloads import MODEL, StageSpec, Workload
from simulator.traffic.asks import Prompt, Trace, TraceEntry
from simulator.traffic.client import Options, run
from simulator.traffic.generators import poisson_times, text_of
from simulator.traffic.records import Outcome, Record
from simulator.traffic.report import Percentiles, Slo

QUIET, LOUD = "quiet", "loud"
FAIRNESS_HEADER = "x-gateway-inference-fairness-id"
_PROMPT_TOKENS, _ANSWER_TOKENS = 64, 80
_SLOTS = 8
_REPLICAS = 2
_FILLING_SECONDS = 10.0
"""The start of a run, while replicas fill, does not count."""


@dataclass(frozen=True)
class Load:
    """The load of a run."""

    seconds: float
    factor: float = 1
    """How many times its share the loud client sends. At 1, both together send as much as the
    replicas can answer, and the quiet client sends less than half of it."""
    quiet: float = 1.1
    """Requests per second of the quiet client."""
    share: float = 1.8
    """Requests per second that are the loud client's share."""
    patience_seconds: float = 30.0
    """Seconds after which a client gives up."""


@dataclass(frozen=True)
class Ran:
    """One run."""

    clients: dict[str, "Waited"]
    """What each client saw."""
    replicas_lag_ms: float
    """How much later than planned the replicas computed, at most so far. Large values say more
    about a busy machine than about the picker."""


@dataclass(frozen=True)
class Waited:
    """What one client saw."""

    sent: int
    answered: int
    refused: int
    gave_up: int
    ttft_ms: Percentiles
    """Times to first token. A request without an answer counts with the client's patience."""


def workload() -> Workload:
    """Return the replicas: few slots each, so that a full pool needs few requests a second."""
    flags = ("--max-model-len=8192", f"--max-num-seqs={_SLOTS}")
    replica = ReplicaSpec("nvidia-l4", 1, "meta-llama/Llama-3.1-8B", flags)
    stage = StageSpec(1, 1)
    return Workload(
        "fairness", "two clients of one pool", (replica,) * _REPLICAS, (stage,), (stage,),
        lambda _stage, _seed: trace(Load(1)), Slo(ttft_ms=2000, tpot_ms=200),
    )  # fmt: skip


def trace(load: Load) -> Trace:
    """Return the requests of both clients; those of the quiet one do not depend on the other."""
    quiet = _asks(QUIET, load.quiet, load.seconds, seed=1)
    loud = _asks(LOUD, load.share * load.factor, load.seconds, seed=2)
    return Trace.merge("fairness", quiet, loud)


def _asks(client: str, rate: float, seconds: float, seed: int) -> list[TraceEntry]:
    times = poisson_times(rate, seconds, seed)
    return [
        TraceEntry(
            at=at,
            model=MODEL,
            prompt=Prompt(text_of(_PROMPT_TOKENS, f"{client} {number}")),
            output_tokens=_ANSWER_TOKENS,
            group=client,
            headers={FAIRNESS_HEADER: client},
        )
        for number, at in enumerate(times)
    ]


def measured(flow: FlowControl | None, loads: list[Load]) -> list[Ran]:
    """Run loads one after another behind the same picker.

    Args:
        flow: the queues of the picker, or none: every request goes to a replica at once.
        loads: loads of the runs.

    Raises:
        RigError: a part did not start.
    """
    policy = Policy("fairness", picker=picker_config(has_adapters=False, flow=flow))
    with (
        tempfile.TemporaryDirectory(prefix="fairness-", ignore_cleanup_errors=True) as folder,
        behind_gateway(Path(folder), workload(), policy) as pool,
    ):
        return [_run(pool, load) for load in loads]


def _run(pool: RealTime, load: Load) -> Ran:
    options = Options(timeout_seconds=load.patience_seconds)
    records = run(trace(load), pool.url, options).records
    counted = [record for record in records if record.due >= _FILLING_SECONDS]
    clients = {
        client: waited([r for r in counted if r.group == client], load.patience_seconds)
        for client in (QUIET, LOUD)
    }
    return Ran(clients, round(1000 * pool.status()["longest_lag_seconds"], 1))


def waited(records: list[Record], patience: float) -> Waited:
    """Return what a client saw.

    Raises:
        ValueError: There are no records.
    """
    by_outcome = {each: sum(r.outcome is each for r in records) for each in Outcome}
    times = [
        r.ttft if r.outcome is Outcome.ANSWERED and r.ttft is not None else patience
        for r in records
    ]
    return Waited(
        sent=len(records),
        answered=by_outcome[Outcome.ANSWERED],
        refused=by_outcome[Outcome.REFUSED],
        gave_up=by_outcome[Outcome.LOST],
        ttft_ms=Percentiles.of(times),
    )
