"""Variables in the PromQL of dashboards and alerts, and differences between Prometheus variants.

Managed Prometheus and plain Prometheus share the language and the names of scraped metrics. They
differ in Google's own metrics, which are named after the metric type with `_` and one `:`
(cloud.google.com/monitoring/promql, "Mapping Cloud Monitoring metrics to PromQL"). Load balancer
and accelerator series are also available elsewhere under those names; the others are omitted there.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from string import Template

from gke_inference.catalogue.engines import DEFAULT_ENGINE, engine, engine_names, series
from gke_inference.catalogue.load_balancing import balancers
from gke_inference.catalogue.pickers import GIE, picker_line

KV_CACHE_FULL = 0.95
"""KV cache utilization above which requests wait or are preempted."""

GATE = "client-gate"
"""Name of the PodMonitoring of a gate, the label `job` of its series."""
RELAYS = "relay(-.+)?"
FALLBACKS = "relay-.+"
"""Names of the PodMonitorings of relays and of fallbacks in pools, as patterns."""

ROLE = "role"
"""Label of series that distinguishes prefill from decode replicas, if a model has both."""

_TOKENS = "sum by (job) (rate($prompt_tokens[$window]) + rate($answer_tokens[$window]))"
_NOTHING = "vector(0) < 0"
_BY_ENGINE = {
    "answer_tokens": "",
    "answered": "",
    "first_token": "_bucket",
    "output_token": "_bucket",
    "prompt_tokens": "",
    "whole_answer": "_bucket",
}
"""Variables for ranges or rates of a metric that differs by engine, with its suffix. An expression
that uses one is repeated for each engine that has the metric. Fields of `engines.Metrics`."""
_ALIVE = "alive"
_OF_ALL = {"kv_use": "kv_cache", "running": "running", "waiting": "queue"}
"""Variables for a gauge across all engines, and the field of `engines.Metrics`."""


class Dialect(StrEnum):
    """Prometheus variant."""

    MANAGED = "managed"
    """Cloud Monitoring: all scraped metrics in the project, and Google's own metrics."""
    PROMETHEUS = "prometheus"
    """A Prometheus that scrapes one cluster, including load balancer and accelerator metrics."""


@dataclass(frozen=True)
class ModelFacts:
    """Facts about one model for dashboards and alerts."""

    job: str
    """Name of its PodMonitoring, the label `job` of its engines. Its picker is `JOB-picker`."""
    deployments: tuple[str, ...]
    """Its accelerator Deployments, the same in every region."""
    clusters: tuple[str, ...] = ()
    """Clusters it runs in."""
    engine: str = DEFAULT_ENGINE
    """Name of its engine, as in the stack."""
    has_kv_tiers: bool = False
    """Whether its engines keep KV cache in tiers below the accelerator's memory."""
    has_own_chips: bool = False
    """Whether several models of a server have chips of their own."""
    holds_requests: bool = False
    """Whether requests wait in relays while none of its replicas is ready."""
    is_from_zero: bool = False
    """Whether it has no replica while nobody needs it."""
    is_picked: bool = True
    """Whether a picker chooses its replicas."""
    picker_limit_mib: int | None = None
    """Memory limit of its picker, for an alert before it is exceeded; None without one."""
    roles: tuple[str, ...] = ()
    """Values of the label `role` of its series; none if all replicas have the same role."""
    prices: Mapping[str, float] = field(default_factory=dict[str, float])
    """US dollars per hour of one replica, by Deployment; empty if unknown."""
    predict_seconds: int | None = None
    """Maximum time of a prediction, of a predictive model; None for others."""
    tpot_p95_ms: int | None = None
    """Promised time per output token, 95th percentile."""
    ttft_p95_ms: int | None = None
    """Promised time to first token, 95th percentile."""

    @property
    def is_paired(self) -> bool:
        """Whether a Deployment substitutes for another one, whose missing nodes are recorded."""
        return len(self.deployments) > max(1, len(self.roles))


@dataclass(frozen=True)
class Scope:
    """Subject of a set of dashboards and alerts."""

    models: tuple[ModelFacts, ...]
    namespace: str
    cost_limit_usd_per_hour: float | None = None
    """Maximum cost of all replicas combined, or None for no limit."""
    exposure: str = "external"
    """`external` or `internal`: from where clients connect."""
    body_router: str | None = None
    """Name of the gateway's body router, the label `job` of its series, or None."""
    has_front: bool = False
    """Whether clients reach the gateways through a global load balancer."""
    has_backends: bool = False
    """Whether the platform has backends."""
    has_batches: bool = False
    """Whether the platform has a batch service."""
    has_clients: bool = False
    """Whether a gate authenticates clients."""
    has_guards: bool = False
    """Whether that gate calls guards for prompts and answers."""
    has_fallbacks: bool = False
    """Whether a pool of a model has a fallback."""
    kafka_streams: tuple[str, ...] = ()
    """Names of the streams whose messages come from Kafka."""
    personal: str | None = None
    """Name of the service for personalized images, and of its subscription."""
    personal_train_seconds: int = 14_400
    """Maximum time of a training job of theirs."""
    queue_clusters: tuple[str, ...] = ()
    """Clusters with job queues."""
    hostname: str | None = None
    """Public hostname of the endpoint, or None."""
    picker: str = GIE
    """Line of the pickers whose metrics are shown."""
    has_next_picker: bool = False
    """Whether each model has a second picker, `JOB-next-picker`."""
    queue_limit: int = 20
    """Waiting requests per replica considered too many."""
    subscriptions: tuple[str, ...] = ()
    """Pub/Sub subscriptions whose messages models answer. Each has one for dead letters."""

    @cached_property
    def _by_window(self) -> dict[str, dict[str, str]]:
        """Values of the variables by window, which each expression of a stack asks for."""
        return {}

    def words(self, window: str) -> dict[str, str]:
        """Return the values of the variables, for reading.

        Args:
            window: Window of rates, such as `5m`.
        """
        if window not in self._by_window:
            self._by_window[window] = _words(self, window)
        return self._by_window[window]

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of its models' engines."""
        return tuple(sorted({model.engine for model in self.models}))

    @property
    def has_waits(self) -> bool:
        """Whether requests of a model wait in relays for a replica."""
        return any(model.is_from_zero or model.holds_requests for model in self.models)

    def has_one(self, needs: str | Sequence[str] | None) -> bool:
        """Return whether one of some facts is true, such as the use of an engine; None: always."""
        words = (needs,) if isinstance(needs, str) else needs or ()
        return not words or not self.says.isdisjoint(words)

    @property
    def says(self) -> frozenset[str]:
        """Facts of the stack that an alert or page may need."""
        said = {
            "backends": self.has_backends,
            "body_router": self.body_router is not None,
            "batches": self.has_batches,
            "clients": self.has_clients,
            "guards": self.has_guards,
            "fallbacks": self.has_fallbacks,
            "waits": self.has_waits,
            "relays": self.has_backends or self.has_fallbacks or self.has_waits,
            **dict.fromkeys(self.engines, True),
            "kv_tiers": any(model.has_kv_tiers for model in self.models),
            "own_chips": any(model.has_own_chips for model in self.models),
            "cost_limit": self.cost_limit_usd_per_hour is not None,
            "hostname": self.hostname is not None and self.exposure == "external",
            "pickers": any(model.is_picked for model in self.models),
            "picker_limits": any(model.picker_limit_mib is not None for model in self.models),
            "pairs": any(model.is_paired for model in self.models),
            "personal": self.personal is not None,
            "predictions": any(model.predict_seconds is not None for model in self.models),
            "kafka_streams": bool(self.kafka_streams),
            "queues": bool(self.queue_clusters),
            "streams": bool(self.subscriptions),
            "tpot_slo": any(
                model.tpot_p95_ms is not None and engine(model.engine).metrics.output_token
                for model in self.models
            ),
            "ttft_slo": any(
                model.ttft_p95_ms is not None and engine(model.engine).metrics.first_token
                for model in self.models
            ),
        }
        return frozenset(name for name, is_said in said.items() if is_said)


def fill(expression: str, scope: Scope, window: str) -> str:
    """Return an expression with its variables expanded.

    Args:
        expression: PromQL with variables such as `$engines`.
        scope: Scope of the expression.
        window: Window of rates, such as `5m`.

    Raises:
        KeyError: A variable is unknown.
    """
    template = Template(expression.replace("$1", "$$1"))
    common = scope.words(window)
    if not _BY_ENGINE.keys() & set(template.get_identifiers()):
        return template.substitute(common)
    return _each_engine(template, scope, common) or _NOTHING


def words() -> frozenset[str]:
    """Return the variables that `fill` expands."""
    return frozenset([*Scope((), "").words(""), *_BY_ENGINE])


def _each_engine(template: Template, scope: Scope, common: Mapping[str, str]) -> str:
    """Return an expression once for each engine that exports all its metrics."""
    used = _BY_ENGINE.keys() & set(template.get_identifiers())
    made: list[str] = []
    for name in scope.engines:
        metrics = {word: getattr(engine(name).metrics, word) for word in used}
        if all(metrics.values()):
            own = {
                word: _series(scope, name, metric + _BY_ENGINE[word])
                for word, metric in metrics.items()
            }
            made.append(template.substitute(common, **own))
    return " or ".join(made)


def _series(scope: Scope, name: str, metric: str) -> str:
    """Return the series of a metric, written `name{label=value}`, of an engine's models."""
    jobs = _jobs(scope, name)
    base, more = _named(metric)
    return f'{base}{{namespace="{scope.namespace}",job=~"{jobs}"{more}}}'


def _of_all(scope: Scope, field_name: str) -> str:
    """Return a gauge of all engines that have it, as one vector."""
    found = {name: _metric(name, field_name) for name in scope.engines}
    made = [_series(scope, name, metric) for name, metric in found.items() if metric]
    return made[0] if len(made) == 1 else f"({' or '.join(made) or _NOTHING})"


def _metric(engine_name: str, field_name: str) -> str | None:
    """Return a metric of an engine; `_ALIVE` is a gauge that each replica has."""
    metrics = engine(engine_name).metrics
    return metrics.busy[-1] if field_name == _ALIVE else getattr(metrics, field_name)


def _absent_program(scope: Scope, metric: str, job: str) -> str:
    """Return an expression with a result for each cluster whose program is not scraped."""
    series_of = f'{metric}{{namespace="{scope.namespace}",job="{job}"'
    clusters = sorted({name for model in scope.models for name in model.clusters})
    each = [f'absent({series_of},cluster="{name}"}})' for name in clusters]
    return " or ".join(each) or f"absent({series_of}}})"


def _absent_streams(scope: Scope) -> str:
    """Return an expression with a result for each Kafka stream that no worker reports."""
    series_of = f'gke_inference_stream_backlog{{namespace="{scope.namespace}"'
    each = [f'absent({series_of},stream="{name}"}})' for name in scope.kafka_streams]
    return " or ".join(each) or _NOTHING


def _absent_queues(scope: Scope) -> str:
    """Return an expression with a result for each cluster whose Kueue is not scraped."""
    each = [
        f'absent(kueue_pending_workloads{{{_KUEUE},cluster="{name}"}})'
        for name in scope.queue_clusters
    ]
    return " or ".join(each) or _NOTHING


_FEW = 10
"""Requests, or failures, in the long window of an alert, up to which it is silent (assumed)."""
_KUEUE = 'job="kueue",replica_role="leader"'
"""Replicas that follow have values of the past."""
_SUBSCRIPTION = 'monitored_resource="pubsub_subscription"'


def _of_chips(metric: str, scope: Scope) -> str:
    """Return a series that GKE has of the chips of the namespace's containers."""
    labels = f'monitored_resource="k8s_container",namespace_name="{scope.namespace}"'
    return f"kubernetes_io:container_accelerator_{metric}{{{labels}}}"


def _words(scope: Scope, window: str) -> dict[str, str]:
    jobs = _any(model.job for model in scope.models)
    deployments = [name for model in scope.models for name in model.deployments]
    inside = f'namespace="{scope.namespace}"'
    engines = f'{inside},job=~"{jobs}"'
    rates = {"engines": engines, "window": window}
    priced = {name: usd for m in scope.models for name, usd in m.prices.items()}
    of_all = {word: _of_all(scope, metric) for word, metric in _OF_ALL.items()}
    answering = f"count by (job, cluster, top_level_controller_name) ({_of_all(scope, _ALIVE)})"
    tokens = _each_engine(Template(_TOKENS), scope, rates) or _NOTHING
    tokens = f"({tokens})" if " or " in tokens else tokens
    per_hour = (
        f"sum by (job) ({answering} * on (top_level_controller_name) group_left () "
        f"({constants('top_level_controller_name', priced)}))"
    )
    line, second = (
        picker_line(scope.picker),
        "(-next)?-picker" if scope.has_next_picker else "-picker",
    )
    balancer = balancers(scope.exposure, has_front=scope.has_front).clients.series
    return {
        **rates,
        **of_all,
        "absent_gates": _absent_program(scope, "callout_key_document_age_seconds", GATE),
        "absent_routers": _absent_program(scope, "body_router_bodies", scope.body_router or ""),
        "absent_queues": _absent_queues(scope),
        "absent_streams": _absent_streams(scope),
        "absent_models": _absent(scope, None, ""),
        "absent_pickers": _absent(scope, picker_line(scope.picker).metrics["ready"], "-picker"),
        "batch_engines": 'namespace=~"jobs-.+",job=~"batch-.+"',
        "batches": f'namespace=~"{scope.namespace}|jobs-.+"',
        "cost_limit": f"{scope.cost_limit_usd_per_hour or 0:g}",
        "cost_per_hour": per_hour,
        "cost_per_million": f"{per_hour} / ({tokens} * 0.0036 > 0)",
        "duty_cycle": _of_chips("duty_cycle", scope),
        "fallbacks": f'{inside},job=~"{FALLBACKS}"',
        "few": str(_FEW),
        "gate": f'{inside},job="{GATE}"',
        "hostname": scope.hostname or "",
        "kafka": f'{inside},stream=~"{_any(scope.kafka_streams)}"',
        "kueue": _KUEUE,
        "kv_limit": str(KV_CACHE_FULL),
        "lb_latencies": f"{balancer}_total_latencies_bucket",
        "lb_requests": f"{balancer}_request_count",
        "lb_server_errors": f'{balancer}_request_count{{response_code_class="500"}}',
        "memory_total": _of_chips("memory_total", scope),
        "memory_used": _of_chips("memory_used", scope),
        "namespace": scope.namespace,
        "personal_erasures": f'{_SUBSCRIPTION},subscription_id="{scope.personal}-erasures"',
        "personal_letters": f"{_SUBSCRIPTION},"
        f'subscription_id=~"{scope.personal}(-erasures)?-dead-letters"',
        "personal_limit": str(scope.personal_train_seconds // 2),
        "personal_sets": f'{_SUBSCRIPTION},subscription_id="{scope.personal}"',
        "picker_limit": constants("job", _picker_limits(scope)),
        "pickers": f'{inside},job=~"({_any(m.job for m in scope.models if m.is_picked)}){second}"',
        **{name: f'{inside},job=~"{_jobs(scope, name)}"' for name in engine_names()},
        **{f"picker_{word}": name for word, name in line.metrics.items()},
        **{f"picker_label_{word}": name for word, name in line.labels.items()},
        "pods": f'{inside},pod=~"({_any(deployments)})-.*"',
        "router": f'{inside},job="{scope.body_router}"',
        "predict_limit": constants("job", _half_of_timeouts(scope)),
        "relays": f'{inside},job=~"{RELAYS}"',
        "queue_limit": str(scope.queue_limit),
        "letters": f'{_SUBSCRIPTION},subscription_id=~"({_any(scope.subscriptions)})-dead-letters"',
        "streams": f'{_SUBSCRIPTION},subscription_id=~"{_any(scope.subscriptions)}"',
        "scalers": f'{inside},horizontalpodautoscaler=~"{_any(deployments)}"',
        "tpot_slo": constants("job", _seconds(scope, "tpot_p95_ms")),
        "ttft_slo": constants("job", _seconds(scope, "ttft_p95_ms")),
    }


def constants(label: str, values: Mapping[str, float]) -> str:
    """Return a vector with one constant per label value, empty if there are none."""
    if not values:
        return _NOTHING
    return " or ".join(
        f'label_replace(vector({value:g}), "{label}", "{name}", "", "")'
        for name, value in sorted(values.items())
    )


def _seconds(scope: Scope, name: str) -> dict[str, float]:
    promised = {model.job: getattr(model, name) for model in scope.models}
    return {job: value / 1000 for job, value in promised.items() if value is not None}


def _picker_limits(scope: Scope) -> dict[str, float]:
    """Return the memory limit of each picker in bytes, by its job."""
    ends = ("-picker", "-next-picker") if scope.has_next_picker else ("-picker",)
    return {
        f"{model.job}{end}": float(model.picker_limit_mib << 20)
        for model in scope.models
        if model.picker_limit_mib is not None
        for end in ends
    }


def _jobs(scope: Scope, engine_name: str) -> str:
    return _any(model.job for model in scope.models if model.engine == engine_name)


def _half_of_timeouts(scope: Scope) -> dict[str, float]:
    timeouts = {model.job: model.predict_seconds for model in scope.models}
    return {job: seconds / 2 for job, seconds in timeouts.items() if seconds is not None}


def _absent(scope: Scope, metric: str | None, suffix: str) -> str:
    """Return an expression with a result for each model and cluster without a metric.

    Defaults to a metric of the model's engine.

    `absent` alone would miss a model that is missing in only one of its clusters, or that has
    engines of only one role. A picker has no role.
    """
    gone = [
        f'absent({name}{{namespace="{scope.namespace}",job="{model.job}{suffix}"{more}{at}{of}}})'
        for model in scope.models
        for name, more in [_named(metric or engine(model.engine).metrics.busy[-1])]
        if (model.is_picked if suffix else not model.is_from_zero)
        for at in ([f',cluster="{name}"' for name in model.clusters] or [""])
        for of in ([f',{ROLE}="{role}"' for role in model.roles if not suffix] or [""])
    ]
    return " or ".join(gone) or _NOTHING


def _named(metric: str) -> tuple[str, str]:
    name, labels = series(metric)
    return name, "".join(f',{label}="{value}"' for label, value in labels.items())


def _any(names: Iterable[str]) -> str:
    return "|".join(re.escape(name).replace(r"\-", "-") for name in sorted(set(names)))
