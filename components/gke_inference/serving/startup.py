"""How long an engine may take to load and compile before its container is restarted."""

import math
from collections.abc import Iterable

from gke_inference.intent.intent import ServingIntent
from gke_inference.serving.launcher.spec import Serving
from gke_inference.sizing.memory import weights_gib

LEAST_MINUTES = 30
READ_GB_PER_SECOND = 1.3
"""Rate at which a node reads weights from a bucket: 58.99 GiB in 48.2 s on one H100 with the Run:ai
streamer (GoogleCloudPlatform/accelerated-platforms, vllm-fast-start, September 2026)."""
_MARGIN = 1.5
_GB_PER_GIB = 2**30 / 1e9


def start_minutes(intent: ServingIntent, serving: Iterable[Serving]) -> int:
    """Return the time for a start, in minutes: half an hour, or longer for a long download.

    Each copy of a server with data parallelism is a process that reads every tensor, whichever
    experts it keeps (vLLM's runai_streamer without `distributed`). The copies of a node share its
    network.

    Args:
        intent: The model.
        serving: Served configurations, of which the slowest counts.
    """
    size_gb = weights_gib(intent.size.parameters_billion, intent.size.bits) * _GB_PER_GIB
    copies = max(math.ceil(each.data_parallel / each.hosts) for each in serving)
    seconds = _MARGIN * copies * size_gb / READ_GB_PER_SECOND
    return max(LEAST_MINUTES, math.ceil(seconds / 60))
