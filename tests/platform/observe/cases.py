"""The cases of alerts, and what a platform without requests writes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("alert_cases.yaml")
_SERIES = ("fires", "silent", "few")
_KEYS = {"at", *_SERIES}


def read_cases(text: str) -> dict[str, dict[str, Any]]:
    """Return the cases by the name of their alert.

    Raises:
        ValueError: A value is no text. YAML reads `0x20` without quotes as the number 32, which
            promtool takes for one sample.
    """
    cases: dict[str, dict[str, Any]] = yaml.safe_load(text)
    for alert, case in cases.items():
        if unknown := sorted(case.keys() - _KEYS):
            raise ValueError(f"{alert}: keys must be of {sorted(_KEYS)}, got {unknown}")
        values = {"at": case["at"]}
        values |= {
            f"{kind}.{name}": value
            for kind in _SERIES
            for name, value in case.get(kind, {}).items()
        }
        for where, value in values.items():
            if not isinstance(value, str):
                raise ValueError(f"{alert}.{where}: must be text in quotes, got {value!r}")
    return cases


CASES = read_cases(FILE.read_text())


def series_of_cases() -> Iterator[tuple[str, str]]:
    """Yield every series of the cases and of an idle platform, and its place."""
    for alert, case in CASES.items():
        for kind in _SERIES:
            yield from ((f"{alert}.{kind}", series) for series in case.get(kind, {}))
    yield from (("IDLE", series) for series in IDLE)


IDLE = {
    # what a platform without requests writes: the counters of a burst that was slow and partly
    # failed, and has ended; gauges at rest
    **{
        f'{name}{{job="{job}",le="{bound}",$l}}': f"0x2 {value}x800"
        for job in ("llama", "embedder")
        for name in (
            "vllm:time_to_first_token_seconds_bucket",
            "vllm:request_time_per_output_token_seconds_bucket",
        )
        for bound, value in (("0.01", 0), ("10", 500), ("+Inf", 500))
    },
    **{
        f'{name}{{job="{job}",pod="{job}-1",$l}}': "0x800"
        for job in ("llama", "embedder")
        for name in (
            "vllm:num_requests_running",
            "vllm:num_requests_waiting",
            "vllm:kv_cache_usage_perc",
            "vllm:num_preemptions_total",
        )
    },
    'inference_pool_ready_pods{job="llama-picker",$l}': "1x800",
    'inference_objective_request_error_total{job="llama-picker",$l}': "0x2 100x800",
    'inference_objective_request_total{job="llama-picker",$l}': "0x2 500x800",
    **{
        "loadbalancing_googleapis_com:https_external_regional_request_count"
        f'{{url_map_name="u",response_code_class="{code}"}}': f"0x2 {count}x800"
        for code, count in (("200", 400), ("500", 100))
    },
    'kube_pod_status_phase{phase="Running",pod="llama-gpu-1-a",$l}': "0x800",
    **{
        f"kube_horizontalpodautoscaler_{name}"
        f'{{horizontalpodautoscaler="llama-gpu",$l}}': f"{value}x800"
        for name, value in (
            ("status_desired_replicas", 1),
            ("spec_max_replicas", 4),
            ("spec_min_replicas", 1),
        )
    },
    'body_router_bodies{job="acme-prod-body-router",$l}': "0x800",
    'callout_key_document_age_seconds{job="client-gate",$l}': "2x800",
    'callout_budget_spent_ratio{job="client-gate",team="t",kind="usd",$l}': "0.1x800",
    'kueue_pending_workloads{job="kueue",replica_role="leader",cluster_queue="q",$l}': "0x800",
    'gke_inference_stream_backlog{stream="letters",$l}': "0x800",
    'monitoring_googleapis_com:uptime_check_check_passed{monitored_resource="uptime_url",'
    'host="models.example.com",check_id="c",checker_location="eur-belgium"}': "1x800",
}
