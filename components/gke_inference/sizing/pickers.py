"""CPU and memory of an endpoint picker and of the body router, from the load that they must bear.

The picker parses each prompt, hashes its prefix, reads the metrics of each replica and sees each
part of an answer. Only one picker of a pool is active, so the load of a model is that of one pod.
llm-d-router publishes a rule of 0.5 to 1.0 core per request/s of 100,000 prompt and 1,000 answer
tokens (docs/operations.md), and measurements (test/perf/config/studyanalysis, both of v0.10.0). The
numbers here bound all these measurements from above; a test has them.
"""

from dataclasses import dataclass
from math import ceil

_BASE_CORES = 0.5
_CORES_PER_REPLICA = 0.075
"""Reads of metrics: 7.5 cores for 100 replicas (docs/operations.md)."""
_CORES_PER_REQUEST = 0.01
"""4.9 cores for 500 requests/s of 200 prompt and 100 answer tokens."""
_CORES_PER_100K_PROMPT = 0.5
_CORES_PER_1K_ANSWER = 0.035
"""3.7 cores for 10 requests/s of 10,000 answer tokens, 0.6 of them without answers."""
_BASE_GIB = 1.0
_GIB_PER_100K_PROMPT = 0.1
"""Per request/s: for its body, and as much again per 1,000 answer tokens, while it is open."""
_ROUTER_CORES = 0.2
_ROUTER_CORES_PER_100K_PROMPT = 0.073
"""Those of Envoy for the same bodies, 7.3 cores for 100 requests/s (docs/operations.md). That the
router, which also reads a body and passes it on, needs no more is assumed."""
_LIMIT_FACTOR = 2
_LEAST_LIMIT_MIB = 4096
_STEP_MILLICORES = 50
_STEP_MIB = 64
_NODE_SHARE = 0.8
"""Share of a system node that one picker may take. The rest is for GKE's own pods (assumed)."""


@dataclass(frozen=True)
class PeakLoad:
    """Most requests of one model in one region.

    Attributes:
        requests_per_second: Requests that begin in a second.
        prompt_tokens: Mean of a prompt.
        answer_tokens: Mean of an answer.
        replicas: Most replicas of the model.
    """

    requests_per_second: float
    prompt_tokens: int
    answer_tokens: int
    replicas: int

    @property
    def _prompts(self) -> float:
        """Prompts of 100,000 tokens in a second."""
        return self.requests_per_second * self.prompt_tokens / 100_000

    def router_cores(self) -> float:
        """Return the cores that all replicas of the body router need for these requests."""
        return self._prompts * _ROUTER_CORES_PER_100K_PROMPT

    def picker(self) -> "Resources":
        """Return the resources of its picker."""
        answers = self.answer_tokens / 1000
        cores = (
            _BASE_CORES
            + self.replicas * _CORES_PER_REPLICA
            + self.requests_per_second * (_CORES_PER_REQUEST + answers * _CORES_PER_1K_ANSWER)
            + self._prompts * _CORES_PER_100K_PROMPT
        )
        gib = _BASE_GIB + self._prompts * _GIB_PER_100K_PROMPT * (1 + answers)
        return Resources.rounded(cores, gib * 1024)


@dataclass(frozen=True)
class Resources:
    """What a container requests."""

    millicores: int
    memory_mib: int

    @classmethod
    def rounded(cls, cores: float, memory_mib: float) -> "Resources":
        """Return resources rounded up to whole steps."""
        return cls(
            ceil(round(cores * 1000, 3) / _STEP_MILLICORES) * _STEP_MILLICORES,
            ceil(round(memory_mib, 3) / _STEP_MIB) * _STEP_MIB,
        )

    @property
    def limit_mib(self) -> int:
        """Memory limit: bodies of a burst come on top of those of a steady load."""
        return max(_LEAST_LIMIT_MIB, self.memory_mib * _LIMIT_FACTOR)

    def plus(self, millicores: int, memory_mib: int) -> "Resources":
        """Return these resources and others."""
        return Resources(self.millicores + millicores, self.memory_mib + memory_mib)

    def fits(self, vcpus: int, memory_gib: float) -> bool:
        """Return whether a node of so many vCPUs and GiB has room for one such pod."""
        has_cores = self.millicores <= vcpus * 1000 * _NODE_SHARE
        return has_cores and self.memory_mib <= memory_gib * 1024 * _NODE_SHARE


USUAL_PICKER = Resources(500, 1024)
"""Of a picker whose model states no load."""
USUAL_ROUTER_MILLICORES = round(_ROUTER_CORES * 1000)


def most_requests_per_second(prompt_tokens: int, answer_tokens: int, vcpus: int) -> float:
    """Return the most requests/s of a kind that a picker on a node bears, by its CPU."""
    one = PeakLoad(1, prompt_tokens, answer_tokens, 0).picker().millicores
    none = PeakLoad(0, prompt_tokens, answer_tokens, 0).picker().millicores
    return max(0.0, (vcpus * 1000 * _NODE_SHARE - none) / (one - none))


def router_millicores(loads: list[PeakLoad], replicas: int) -> int:
    """Return the CPU of each replica of the body router: all replicas share all requests."""
    shared = sum(load.router_cores() for load in loads) / replicas
    return Resources.rounded(_ROUTER_CORES + shared, 0).millicores


_GIB_PER_VCPU = {"highcpu": 1.0, "highmem": 8.0}
_USUAL_GIB_PER_VCPU = 4.0


def memory_gib_of(machine_type: str, vcpus: int) -> float:
    """Return the memory of a general-purpose machine type, by its shape.

    About 1, 4 and 8 GiB for each vCPU of highcpu, standard and highmem
    (docs.cloud.google.com/compute/docs/general-purpose-machines); some families have less.
    """
    shape = next((each for each in _GIB_PER_VCPU if f"-{each}-" in machine_type), "")
    return vcpus * _GIB_PER_VCPU.get(shape, _USUAL_GIB_PER_VCPU)
