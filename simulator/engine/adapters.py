"""LoRA adapters on the accelerator and in host memory, and the time to load them."""

from collections import OrderedDict
from collections.abc import Sequence

from simulator.engine.settings import Deployment

_ADAPTER_GB = 0.09
"""A rank-16 adapter of an 8B model; others in proportion to rank and model."""
_HOST_TO_DEVICE_GBPS = 12.0
_VOLUME_GBPS = 0.5


class AdapterSlots:
    """LoRA adapters on the accelerator and in host memory, with LRU eviction."""

    def __init__(self, deployment: Deployment) -> None:
        flags = deployment.flags
        self.slots: int = flags.max_loras or 1
        self.host_slots: int = max(self.slots, flags.max_cpu_loras or self.slots)
        scale = deployment.shape.parameters_billion / 8 * (flags.max_lora_rank or 16) / 16
        self.device_seconds = _ADAPTER_GB * scale / _HOST_TO_DEVICE_GBPS
        """Time to load an adapter from host memory to the accelerator."""
        self.host_seconds = _ADAPTER_GB * scale / _VOLUME_GBPS
        """Time to load an adapter from its volume to host memory."""
        self._device: OrderedDict[str, None] = OrderedDict()
        self._host: OrderedDict[str, None] = OrderedDict()

    def are_loaded(self, names: Sequence[str]) -> bool:
        """Return whether adapters are all on the accelerator."""
        return all(name in self._device for name in names)

    def load(self, names: Sequence[str], busy: Sequence[str] = ()) -> float:
        """Load adapters to the accelerator and return the time in seconds."""
        seconds = 0.0
        for name in names:
            if name not in self._device:
                seconds += self.device_seconds
                if name not in self._host:
                    seconds += self.host_seconds
            self._use(self._host, name, self.host_slots, busy)
            self._use(self._device, name, self.slots, busy)
        return seconds

    @staticmethod
    def _use(kept: OrderedDict[str, None], name: str, most: int, busy: Sequence[str]) -> None:
        kept[name] = None
        kept.move_to_end(name)
        while len(kept) > most:
            oldest = next((item for item in kept if item not in busy and item != name), None)
            if oldest is None:
                return
            del kept[oldest]

    def forget(self, name: str) -> None:
        """Remove an unloaded adapter."""
        self._device.pop(name, None)
        self._host.pop(name, None)
