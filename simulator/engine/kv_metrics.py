"""The metrics of KV transfers and tiers: those of vLLM's NixlPromMetrics and OffloadingConnector.

Names, help and buckets are those of vLLM 0.32.0 (kv_connector/v1/nixl, v1/offloading/metrics.py).

They exist only with a connector, so they are not in `data/metrics.json`, which was read from a
server without one.
"""

from simulator.engine.exposition import Metric
from simulator.engine.kv_tiers import KvTiers

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)
_BYTES = tuple(float(2 ** (10 + power)) for power in range(1, 25, 2))
_LABELS = ("engine", "model_name")


class KvMetrics:
    """The metrics of an engine's reads from others.

    Args:
        metrics: dictionary to which the families are added, by name.
        series: label values of the engine.
    """

    def __init__(self, metrics: dict[str, Metric], series: tuple[str, str]) -> None:
        self._series = series
        self._seconds = Metric(
            "vllm:nixl_xfer_time_seconds",
            "histogram",
            "Histogram of transfer duration for NIXL KV Cache transfers.",
            _LABELS,
            _SECONDS[1:],
        )
        self._bytes = Metric(
            "vllm:nixl_bytes_transferred",
            "histogram",
            "Histogram of bytes transferred per NIXL KV Cache transfers.",
            _LABELS,
            _BYTES,
        )
        self._failed = Metric(
            "vllm:nixl_num_failed_transfers_total",
            "counter",
            "Number of failed NIXL KV Cache transfers.",
            _LABELS,
        )
        self._expired = Metric(
            "vllm:nixl_num_kv_expired_reqs_total",
            "counter",
            "Number of requests that had their KV expire. NOTE: This metric is tracked on the P"
            " instance.",
            _LABELS,
        )
        for metric in (self._seconds, self._bytes, self._failed, self._expired):
            metric.touch(*series)
            metrics[metric.name] = metric

    def read(self, seconds: float, size: int) -> None:
        """Record a prompt whose KV was read."""
        self._seconds.observe(seconds, *self._series)
        self._bytes.observe(size, *self._series)

    def failed(self) -> None:
        """Record a prompt whose KV could not be read."""
        self._failed.add(1, *self._series)

    def expired(self, count: int) -> None:
        """Record prompts that were not read in time."""
        self._expired.add(count, *self._series)


_TIERS = {
    "load_bytes": "Total bytes loaded from offload storage to GPU.",
    "load_time": "Total load time from offload storage to GPU, in seconds.",
    "store_bytes": "Total bytes stored from GPU to offload storage.",
    "store_time": "Total store time from GPU to offload storage, in seconds.",
}


class TierMetrics:
    """The metrics of an engine's copies between the accelerator and main memory.

    Args:
        metrics: dictionary to which the families are added, by name.
        series: label values of the engine.
    """

    def __init__(self, metrics: dict[str, Metric], series: tuple[str, str]) -> None:
        self._series = series
        self._made = {
            name: Metric(f"vllm:kv_offload_{name}_total", "counter", text, _LABELS)
            for name, text in _TIERS.items()
        }
        for metric in self._made.values():
            metric.touch(*series)
            metrics[metric.name] = metric

    def state(self, tiers: KvTiers) -> None:
        """Record the copies so far."""
        values = {
            "load_bytes": tiers.loaded_bytes,
            "load_time": tiers.load_seconds,
            "store_bytes": tiers.stored_bytes,
            "store_time": tiers.store_seconds,
        }
        for name, value in values.items():
            self._made[name].set(value, *self._series)
