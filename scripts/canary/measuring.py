"""Requests of a canary and of the stable version, from the clusters' Prometheus.

Counters are read twice and subtracted per series. `increase()` would miss the first value of a new
series, which matters for errors.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.load_balancing import balancers
from gke_inference.catalogue.pickers import GIE, picker_line
from infra.plan import Plan
from infra.stack import Front
from scripts.accept.deployed import Deployed
from scripts.canary.comparison import Share, bound_of_quantile, common_bounds, slow
from scripts.canary.steps import Measurements, NotMeasurable
from scripts.shared.google_cloud import CloudError
from twin.cluster.monitoring.promql import QueryError, Sample

# pickers of both lines have the metrics of this one (llm-d-router docs/metrics.md)
_REFUSALS: Final = picker_line(GIE).metrics["errors"]
_PICKED: Final = picker_line(GIE).metrics["requests"]
_ANSWERED: Final = "backend_request_count"
_NOT_THE_VERSIONS: Final = "BadRequest|ModelServerError"
"""Error codes of pickers that are left out: a client's own, and answers of engines, which the load
balancer counts. The picker's v1.5.0 does not see those behind Envoy: it looks for a header `status`
(pkg/epp/handlers/server.go)."""
_QUANTILE: Final = 0.95
_LATE: Final = "late first tokens"
Counters = dict[frozenset[tuple[str, str]], float]


@dataclass(frozen=True)
class Version:
    """One version of a model, with its names in metrics."""

    object_name: str
    """Name in Kubernetes, of its PodMonitoring and its pool."""
    namespace: str
    balancer: str
    """First part of the names of the load balancer's metrics."""
    first_token: str | None
    """Histogram of the time to first token; None if the engine has none."""
    is_twin: bool = False

    @property
    def _backend(self) -> str:
        """Matcher for the load balancer's series of the pool.

        GKE builds the name of a backend service from hashes, namespace, object and port.
        """
        if self.is_twin:
            return f'backend_name="pool/{self.namespace}/{self.object_name}"'
        name = f"{self.namespace}-{self.object_name}(-ip-[a-z0-9]+)?"
        return f'backend_target_name=~"gkegw1-[a-z0-9]+-{name}-[0-9]+-[a-z0-9]+"'

    def expressions(self, matchers: str, of_balancer: str) -> dict[str, str]:
        """Return the PromQL of the version's counters in one cluster, by kind.

        Args:
            matchers: Matchers for series that are scraped in the cluster.
            of_balancer: Matchers for the load balancers' series, which are regional.
        """
        job, where = self.object_name, f'namespace="{self.namespace}",{matchers}'
        picker = f'job="{job}-picker",{where}'
        backend = f"{self._backend},{of_balancer}"
        found = {
            "answered": f"{self.balancer}_{_ANSWERED}{{{backend}}}",
            "failed": f'{self.balancer}_{_ANSWERED}{{response_code_class="500",{backend}}}',
            "picked": f"{_PICKED}{{{picker}}}",
            "refused": f'{_REFUSALS}{{error_code!~"{_NOT_THE_VERSIONS}",{picker}}}',
        }
        if self.first_token is not None:
            found["buckets"] = f'{self.first_token}_bucket{{job="{job}",{where}}}'
        return found


def versions_of(plan: Plan, model: str, *, is_twin: bool) -> tuple[Version, Version]:
    """Return the canary of a model and its stable version."""
    platform = plan.platform
    canary = platform.models[model].canary
    if canary is None:
        raise ValueError(f"{model} must have a canary")
    gateway = platform.gateway
    found = balancers(gateway.exposure.value, has_front=gateway.front is Front.GLOBAL)
    stable = platform.models[model].engine

    def version(name: str, runs_in: str) -> Version:
        served = plan.models[name][0]
        return Version(
            served.object_name,
            served.namespace,
            found.gateways.series,
            engine(runs_in).metrics.first_token,
            is_twin=is_twin,
        )

    newer = version(f"{model}-{canary.version}", canary.engine or stable)
    return newer, version(model, stable)


@dataclass
class Measured:
    """Counts requests of two versions of a model in all clusters of a stack."""

    deployed: Deployed
    regions: tuple[str, ...]
    canary: Version
    stable: Version
    threshold_seconds: float | None
    """Threshold for a late first token; None for the 95th percentile of the stable version."""
    least_requests: int = 1
    """Minimum stable requests for a new percentile, once there is one."""
    _before: dict[tuple[str, str], Counters] = field(
        default_factory=dict[tuple[str, str], Counters]
    )
    _percentile: tuple[float, float] | None = None
    """Last finite percentile of the stable version, and its number of requests."""

    def begin(self) -> None:
        """Count from now on.

        Raises:
            NotMeasurable: A Prometheus does not answer.
        """
        self._before = self._read()

    def look(self) -> Measurements:
        """Return the counts since `begin`.

        Raises:
            NotMeasurable: A Prometheus does not answer.
        """
        now = self._read()
        grown = {key: growth(self._before.get(key, {}), counters) for key, counters in now.items()}
        sums = {key: sum(values.values()) for key, values in grown.items()}

        def errors(version: Version) -> Share:
            name = version.object_name
            refused = round(sums.get((name, "refused"), 0.0))
            answered = round(sums.get((name, "answered"), 0.0))
            # The load balancer's series arrive minutes after the picker's, and their name is
            # assumed. Without them the number of failed requests is unknown.
            if not answered and sums.get((name, "picked"), 0.0) > 0:
                return Share(0, 0)
            total = answered + refused
            bad = round(sums.get((name, "failed"), 0.0)) + refused
            return Share(min(bad, total), total)

        measures = {"errors": (errors(self.canary), errors(self.stable))}
        found = self._late(grown)
        if isinstance(found, str):
            return Measurements(measures, {_LATE: found})
        return Measurements({**measures, _LATE: found})

    def _late(self, grown: Mapping[tuple[str, str], Counters]) -> tuple[Share, Share] | str:
        """Return the late first tokens of both versions, or why they are not comparable."""
        if self.canary.first_token is None or self.stable.first_token is None:
            return "an engine does not export the time to the first token"
        canary, stable = (
            _cumulative(grown.get((each.object_name, "buckets"), {}))
            for each in (self.canary, self.stable)
        )
        # Without requests an engine may have no buckets yet, so the bounds are unknown.
        if canary and stable:
            canary, stable = common_bounds(canary, stable)
            if len(canary) < 2 or (
                self.threshold_seconds is not None and canary[-2][0] < self.threshold_seconds
            ):
                return "the histograms of the engines have no common bound to compare at"
        threshold = self.threshold_seconds
        if threshold is None:
            threshold = self._threshold(stable)
        return slow(canary, threshold), slow(stable, threshold)

    def _threshold(self, stable: list[tuple[float, float]]) -> float:
        """Return the percentile of the stable version, or its last one if it has few requests.

        At 100% it has no requests; the comparison then uses its share from an earlier step.
        """
        total = stable[-1][1] if stable else 0.0
        _, before = self._percentile or (math.inf, 0.0)
        found = bound_of_quantile(stable, _QUANTILE)
        if found is not None and total >= min(self.least_requests, before):
            self._percentile = found, total
        return math.inf if self._percentile is None else self._percentile[0]

    def _read(self) -> dict[tuple[str, str], Counters]:
        """Return all counters by version and kind, of every cluster."""
        found: dict[tuple[str, str], Counters] = {}
        for region in self.regions:
            cluster = self.deployed.clusters[region]
            for version in (self.canary, self.stable):
                for kind, expression in version.expressions(
                    cluster.matchers, cluster.load_balancer_matchers
                ).items():
                    try:
                        samples = counters_of(cluster.query(expression), region)
                    except (CloudError, QueryError) as error:
                        raise NotMeasurable(f"{cluster.name}: {error}") from None
                    found.setdefault((version.object_name, kind), {}).update(samples)
        return found


def counters_of(samples: Iterable[Sample], region: str) -> Counters:
    """Return the value of each series by its labels."""
    return {
        frozenset({**each.labels, "": region}.items()): each.value
        for each in samples
        if not math.isnan(each.value)
    }


def growth(before: Mapping[frozenset[tuple[str, str]], float], now: Counters) -> Counters:
    """Return the growth of each counter; a counter that fell was reset to 0."""
    return {
        labels: value - start if value >= (start := before.get(labels, 0.0)) else value
        for labels, value in now.items()
    }


def _cumulative(grown: Counters) -> list[tuple[float, float]]:
    """Return the buckets of a histogram, summed over its series: upper bound and count."""
    found: dict[float, float] = {}
    for labels, value in grown.items():
        bound = float(dict(labels)["le"])
        found[bound] = found.get(bound, 0.0) + value
    return sorted(found.items())
