"""The specification of a simulated replica: accelerator, model and engine flags."""

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.engine.settings import PREFIX, Deployment, deploy
from twin.engines import vllm_flags as flags

ENGINE_PORT = 8000
_ONLY_FIRST_AND_LAST = "--stream-interval=1000000"


@dataclass(frozen=True)
class ReplicaSpec:
    """The specification of a replica."""

    accelerator: str
    """Accelerator label value on GKE, such as `nvidia-l4`."""
    chips: int
    model: str
    flags: tuple[str, ...] = ()
    """Flags of `vllm serve`."""
    slowdown: float = 1.0
    usd_per_hour: float = 0.0

    def deployment(self, name: str, address: str, served_as: str) -> Deployment:
        """Return the engine's deployment.

        Args:
            name: name of the pod.
            address: address of the pod.
            served_as: model name in requests.
        """
        arguments = [
            self.model,
            *self.flags,
            f"--served-model-name={served_as}",
            f"--port={ENGINE_PORT}",
            _ONLY_FIRST_AND_LAST,
        ]
        environment: Mapping[str, str] = {
            PREFIX + "ACCELERATOR": self.accelerator,
            PREFIX + "CHIPS": str(self.chips),
            PREFIX + "POD": name,
            PREFIX + "POD_IP": address,
        }
        return deploy(flags.parse(arguments), environment)
