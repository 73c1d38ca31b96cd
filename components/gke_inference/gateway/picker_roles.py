"""The configuration of a picker of the line `gie` for a pool of prefill and decode replicas.

Plugin types and parameters are those of llm-d-inference-scheduler v0.4.0, which is the upstream
picker v1.2.0 with additional llm-d plugins.
"""

import yaml

from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.engines import Metrics
from gke_inference.catalogue.pickers import GIE, picker_line
from gke_inference.catalogue.versions import api

_CHARACTERS_PER_TOKEN = 4
_BLOCK_TOKENS = 16
_LONGEST_PREFIX_BLOCKS = 4096
DECODE_WEIGHTS = {
    "prefix-cache-scorer": 2,
    "queue-scorer": 1,
    "kv-cache-utilization-scorer": 2,
}
# The cache of prefill replicas is not tracked: the picker records only decode replicas.
PREFILL_WEIGHTS = {"queue-scorer": 2, "kv-cache-utilization-scorer": 1}


def metric_args(metrics: Metrics) -> list[str]:
    """Return the flags with the engine's metric names; a name that is empty is not read.

    Upstream's later releases reject these flags and read the names from their configuration.
    `--kv-cache-usage-percentage-metric` must be set: v1.2.0 still defaults to the name that vLLM
    removed (`vllm:gpu_cache_usage_perc`).
    """
    flags = [
        ("--total-queued-requests-metric", metrics.queue),
        ("--kv-cache-usage-percentage-metric", metrics.kv_cache or ""),
        ("--lora-info-metric", metrics.adapters or ""),
        ("--cache-info-metric", metrics.cache_info or ""),
    ]
    return [part for flag in flags for part in flag]


def roles_config(threshold_tokens: int) -> str:
    """Return the EndpointPickerConfig as YAML.

    The block size is fixed instead of automatically tuned: the handler counts cached blocks in its
    own size, and the two must match.

    Args:
        threshold_tokens: Tokens of a prompt, beyond what the decode replica has cached, from which
            on a prefill replica computes it. 0: always. The plugin counts characters, 4 a token.
    """
    block = _BLOCK_TOKENS * _CHARACTERS_PER_TOKEN
    plugins: list[Manifest] = [
        {"type": "prefill-header-handler"},
        {
            "type": "prefix-cache-scorer",
            "parameters": {
                "autoTune": False,
                "blockSize": block,
                "lruCapacityPerServer": 31250,
                "maxPrefixBlocksToMatch": _LONGEST_PREFIX_BLOCKS,
            },
        },
        {"type": "queue-scorer"},
        {"type": "kv-cache-utilization-scorer"},
        {"type": "prefill-filter"},
        {"type": "decode-filter"},
        {"type": "max-score-picker"},
        {
            "type": "pd-profile-handler",
            "parameters": {
                "hashBlockSize": block,
                "threshold": threshold_tokens * _CHARACTERS_PER_TOKEN,
            },
        },
    ]
    kind = api(picker_line(GIE).apis["config"])
    return yaml.safe_dump(
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "plugins": plugins,
            "schedulingProfiles": [
                _profile("prefill", PREFILL_WEIGHTS),
                _profile("decode", DECODE_WEIGHTS),
            ],
        },
        sort_keys=False,
    )


def _profile(role: str, weights: dict[str, int]) -> Manifest:
    scorers: list[Manifest] = [
        {"pluginRef": name, "weight": weight} for name, weight in weights.items()
    ]
    first: list[Manifest] = [{"pluginRef": f"{role}-filter"}]
    return {"name": role, "plugins": [*first, *scorers, {"pluginRef": "max-score-picker"}]}
