"""The metrics of KV transfers: names, help and buckets of vLLM's NixlPromMetrics.

They exist only with a connector, so they are no part of `data/metrics.json`, which was read from a
server without one.
"""

from simulator.engine.exposition import Metric

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)
_BYTES = tuple(float(2 ** (10 + power)) for power in range(1, 25, 2))
_LABELS = ("engine", "model_name")


class KvMetrics:
    """What one engine read from others.

    Args:
        metrics: takes the families, by name.
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
        """Book a prompt whose KV was read."""
        self._seconds.observe(seconds, *self._series)
        self._bytes.observe(size, *self._series)

    def failed(self) -> None:
        """Book a prompt whose KV could not be read."""
        self._failed.add(1, *self._series)

    def expired(self, count: int) -> None:
        """Book prompts that nobody came for."""
        self._expired.add(count, *self._series)
