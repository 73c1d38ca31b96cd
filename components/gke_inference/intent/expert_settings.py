"""Expert parallelism: the experts of a mixture on different devices."""

from typing import Final

from pydantic import Field

from gke_inference.settings import Settings, Word

from .words import Role


class AllToAll(Word):
    """Backends that send tokens to their experts on other devices."""

    ALLGATHER_REDUCESCATTER = "allgather_reducescatter"
    DEEPEP_HIGH_THROUGHPUT = "deepep_high_throughput"
    DEEPEP_LOW_LATENCY = "deepep_low_latency"


ALL2ALL: Final = {
    Role.DECODE: AllToAll.DEEPEP_LOW_LATENCY,
    Role.PREFILL: AllToAll.DEEPEP_HIGH_THROUGHPUT,
    None: AllToAll.ALLGATHER_REDUCESCATTER,
}
"""Default all-to-all backend by role, None for replicas of both
(docs.vllm.ai serving/expert_parallel_deployment)."""


class AllToAllByRole(Settings):
    """All-to-all backend of each role."""

    serve: AllToAll | None = None
    """Replicas that compute prompts and answers. Default: allgather_reducescatter."""
    prefill: AllToAll | None = None
    """Prefill replicas. Default: deepep_high_throughput."""
    decode: AllToAll | None = None
    """Decode replicas. Default: deepep_low_latency."""


class Experts(Settings):
    """Spreads the experts of a mixture over all devices of a replica, on one or several hosts.

    The other layers are copied to each device and process different requests
    (`settings.tensor_parallel` devices share a copy; default 1).
    """

    all2all: AllToAllByRole = AllToAllByRole()
    """All-to-all backends (vLLM's --all2all-backend)."""
    hybrid_load_balancing: bool = True
    """Whether every host of a replica accepts requests for its own devices (vLLM's
    --data-parallel-hybrid-lb). Otherwise, the leader accepts the requests of all hosts."""
    redundant: int = Field(default=0, ge=0, le=4096)
    """Additional copies of busy experts, which the engine chooses while it runs (vLLM's
    --enable-eplb with num_redundant_experts). 0 is off."""

    def backend(self, role: Role | None) -> AllToAll:
        """Return the all-to-all backend of a role; None is a replica of both."""
        given = getattr(self.all2all, "serve" if role is None else role.value)
        return ALL2ALL[role] if given is None else given
