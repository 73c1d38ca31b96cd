"""A small platform and steady traffic for tests of the rehearsal."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.demand.arrivals import MOST, Arrivals
from simulator.engine.settings import PREFIX, deploy
from simulator.rehearsal.description import Hardware, Model, Platform, Region, Slo, Times, Workload
from simulator.rehearsal.horizontal import Autoscaler, Metric, Policy, Rules
from twin.cluster.autoscaler.pods import parse
from twin.cluster.autoscaler.rungs import parse_class
from twin.cluster.nodes import pool_spec
from twin.engines.vllm_flags import parse as flags

L4 = "g2-standard-12"
UP = Rules(0.0, (Policy(True, 100, 15), Policy(False, 4, 15)))
DOWN = Rules(300.0, (Policy(False, 1, 120),))
_SHARE = {"nvidia.com/gpu": "1"}


class Listed:
    """Requests of one size at some times."""

    models, teams, regions = ("llm",), (), ()

    def __init__(self, at):
        self._at, self.seconds = at, float(at[-1]) + 1

    def chunks(self):
        """Yield all requests at once."""
        count = len(self._at)
        none = np.full(count, -1, np.int64)
        yield Arrivals(
            self._at, np.zeros(count, np.int16), none.astype(np.int16), none.astype(np.int16),
            np.full(count, 100, np.int32), np.full(count, 20, np.int32), none,
            np.zeros(count, np.int32),
        )  # fmt: skip


@dataclass(frozen=True)
class Steady:
    """Requests at a constant rate, of one size, from regions in turn."""

    rate: float
    seconds: float
    regions: tuple[str, ...] = ()
    models: tuple[str, ...] = ("llm",)
    teams: tuple[str, ...] = ()
    prompt: int = 100
    output: int = 20

    def chunks(self, most=MOST):
        """Yield all requests at once, of which there are fewer than `most`."""
        count = int(self.rate * self.seconds)
        at = np.arange(count) / self.rate
        number = np.arange(count)
        none = np.full(count, -1, np.int64)
        region = number % len(self.regions) if self.regions else none
        team = number % len(self.teams) if self.teams else none
        yield Arrivals(
            at, np.zeros(count, np.int16), team.astype(np.int16), region.astype(np.int16),
            np.full(count, self.prompt, np.int32), np.full(count, self.output, np.int32),
            none, np.zeros(count, np.int32),
        )  # fmt: skip


def engine():
    """Return an engine that answers about two requests of the tests per second."""
    arguments = ["llama-3.1-8b", "--max-model-len=2048", "--max-num-seqs=2"]
    return deploy(flags(arguments), {PREFIX + "ACCELERATOR": "nvidia-l4", PREFIX + "CHIPS": "1"})


def region(name="us-central1", *rules, **spec):
    """Return a region with one class `small`; by default, L4 on demand, then spot."""
    rule = {"machineType": L4, "gpu": {"type": "nvidia-l4", "count": 1}}
    item = {
        "metadata": {"name": "small"},
        "spec": {
            "whenUnsatisfiable": "DoNotScaleUp",
            "nodePoolAutoCreation": {"enabled": True},
            "priorities": list(rules) or [rule, {**rule, "spot": True}],
            **spec,
        },
    }
    zones = (f"{name}-a", f"{name}-b")
    return Region(name, zones, {"small": parse_class(item, zones, 600.0)})


def with_pool(zones):
    """Return a region with a pool for programs, which begins with one node in each zone."""
    found = region()
    names = tuple(f"{found.name}-{letter}" for letter in "abc"[:zones])
    inputs = {"nodeConfig": {"machineType": "e2-standard-4"},
              "autoscaling": {"totalMinNodeCount": zones, "totalMaxNodeCount": 6}}  # fmt: skip
    everywhere = (*names, *(f"{found.name}-{letter}" for letter in "abc"[zones:]))
    spec = pool_spec.parse({"name": "system", "inputs": inputs, "zones": everywhere})
    return Region(found.name, everywhere, found.classes, {"system": spec})


def program(where="us-central1"):
    """Return two replicas of a program of the gateway."""
    spec = {"containers": [{"resources": {"requests": {"cpu": "200m"}}}]}
    pod = parse({"metadata": {"uid": "r", "namespace": "models", "name": "router"}, "spec": spec})
    return Workload("router", where, "", (pod,), 2, {}, grace_seconds=600.0, starts_seconds=5.0)


def workload(where="us-central1", *, least=1, most=4, queue=5.0):
    """Return replicas of `llm` that scale with their queue and their batch."""
    pod = parse(
        {
            "metadata": {"uid": "llm", "namespace": "models", "name": "llm"},
            "spec": {
                "containers": [{"resources": {"requests": {"cpu": "2", **_SHARE}}}],
                "nodeSelector": {"cloud.google.com/compute-class": "small"},
                "tolerations": [{"operator": "Exists"}],
            },
        }
    )
    scaler = Autoscaler("llm", least, most, (Metric("queue", queue),), UP, DOWN)
    return Workload(
        "llm", where, "llm", (pod,), least, {L4: Hardware(0, 50.0, 60.0)}, scaler,
        {"queue": "waiting"}, grace_seconds=60.0,
    )  # fmt: skip


def platform(*regions, **settings):
    """Return a platform with `llm` in some regions; by default in us-central1."""
    found = regions or (region(),)
    usual: dict[str, Any] = {
        "project": "acme",
        "regions": found,
        "models": (Model("llm", (("llm", 1.0),), Slo(2000.0, 100.0), 60.0),),
        "workloads": tuple(workload(each.name) for each in found),
        "engines": (engine(),),
        "times": Times(),
    }
    return Platform(**usual | settings)
