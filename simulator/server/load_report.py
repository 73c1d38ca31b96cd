"""The load of a replica in a response header, for a client that asks for it (ORCA).

vLLM answers the header `endpoint-load-metrics-format` of anyone on whole chats and completions, not
on streams (vllm/entrypoints/serve/utils/orca_metrics.py).
"""

import json

from aiohttp import web

from simulator.engine.engine import Engine

ASKED = "endpoint-load-metrics-format"
REPORT = "endpoint-load-metrics"


def load_report(http: web.Request, engine: Engine) -> dict[str, str]:
    """Return the header with KV cache utilization and queue, or nothing if it is not asked for."""
    kind = http.headers.get(ASKED, "").lower()
    scheduler = engine.scheduler
    values = {
        "kv_cache_usage_perc": float(scheduler.cache.usage),
        "num_requests_waiting": float(len(scheduler.waiting)),
    }
    if kind == "text":
        named = ", ".join(f"named_metrics.{name}={value}" for name, value in values.items())
        return {REPORT: f"TEXT {named}"}
    return {REPORT: f"JSON {json.dumps({'named_metrics': values})}"} if kind == "json" else {}
