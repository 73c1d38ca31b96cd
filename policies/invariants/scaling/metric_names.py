"""Metrics used for scaling and scraping exist in the engine's release."""

import itertools
import re
from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.reading import at, entries, section
from policies.framework.rule import Invariant
from policies.objects.engines import Engine, engine
from policies.objects.index import Obj
from policies.objects.metrics import Exists, engine_metric, prefixes
from policies.objects.pods import PodOf
from policies.objects.scaling import scaler_of
from policies.objects.world import World

_PREFIXES = "|".join(re.escape(prefix[:-1]) for prefix in prefixes())
_NAME = re.compile(rf"\b(?:{_PREFIXES})[:_](?:[A-Za-z0-9_:]|\([A-Za-z0-9_|]+\))+")
"""A name, or a regular expression for several: `vllm:kv_offload_(load|store)_bytes_total`."""


def _check(world: World) -> Iterator[Finding]:
    for scaler in world.of("HorizontalPodAutoscaler"):
        target = [pod for pod in world.pods if scaler_of(pod) is scaler]
        for index, metric in enumerate(entries(scaler.body, "spec", "metrics")):
            for kind in ("pods", "external", "object"):
                name = str(at(metric, kind, "metric", "name") or "")
                field = f"spec.metrics[{index}].{kind}.metric.name"
                yield from _findings(scaler, field, name, target)
    for scrape in world.of("PodMonitoring"):
        selected = world.selected(scrape.namespace, section(scrape.body, "spec", "selector"))
        for index, endpoint in enumerate(entries(scrape.body, "spec", "endpoints")):
            for rule in entries(endpoint, "metricRelabeling"):
                text = str(at(rule, "regex") or "")
                field = f"spec.endpoints[{index}].metricRelabeling"
                yield from _findings(scrape, field, text, selected)


def _findings(obj: Obj, field: str, text: str, pods: list[PodOf]) -> Iterator[Finding]:
    servers = [
        server for pod in pods for each in pod.containers if (server := engine(each)) is not None
    ]
    # a prefix with a colon names the program; others are also of programs that are no engine
    own = tuple(prefix[:-1] for prefix in prefixes() if prefix.endswith(":"))
    for name in dict.fromkeys(_names_in(text)):
        if not servers and name.startswith(own):
            yield unknown(
                obj, field, name, "no engine that exports it was read", "also check the servers"
            )
        for server in servers:
            yield from _of(obj, field, name, server)


def _names_in(text: str) -> Iterator[str]:
    """Yield the names in a text, with each alternative of a group in parentheses."""
    for found in _NAME.findall(text):
        parts = [part.split("|") for part in re.split(r"[()]", found)]
        yield from map("".join, itertools.product(*parts))


def _of(obj: Obj, field: str, name: str, server: Engine) -> Iterator[Finding]:
    answer, detail = engine_metric(name.rstrip("_"), server.kind, server.version)
    release = ".".join(map(str, server.version or ())) or "of an unknown release"
    if answer is Exists.NO:
        yield broken(
            obj,
            field,
            name,
            f"{server.kind} {release} does not export it: {detail}",
            "use a name that the release has; the autoscaler would read <unknown>",
        )
    elif answer is Exists.UNKNOWN:
        yield unknown(obj, field, name, f"{server.kind} {release}: {detail}", "check /metrics")


RULE = Invariant(
    name="metrics-exist",
    description="The engine's release exports the metrics that autoscalers and scraping use.",
    reference="ai-on-gke fungibility tutorial: gpu_cache_usage_perc, renamed in vLLM 0.9.2",
    check=_check,
)
