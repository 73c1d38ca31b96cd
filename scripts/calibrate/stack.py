"""Every model and rung of a stack, beside the models of them.

The labels of a series tell what it is of. The collectors of Managed Prometheus write `cluster`,
`location`, `namespace` and `job` (the name of the PodMonitoring, which is the model's), and the
`node` and `pod` that the PodMonitoring asks for (GoogleCloudPlatform/prometheus-engine,
pkg/operator/apis/monitoring/v1/pod_config.go); the twin's Prometheus has the same. GKE's labels of
that node tell the rung.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final, Protocol

from gke_inference.catalogue.engines import EngineFacts, engine
from gke_inference.catalogue.rungs import Rung
from infra.plan import RegionPlan, ServedModel
from infra.stack import Task
from scripts.calibrate.comparing import Comparison, compared
from scripts.calibrate.series import EngineSeries, Grown, Labels, counters, engines, together
from scripts.rehearse.engine_settings import GROUP, NotSimulatedError, settings_of, template_of
from scripts.shared.placements import is_on
from simulator.engine.settings import Deployment
from simulator.engine.step_times import LEAST_PERIODS
from twin.cluster.monitoring.promql import History
from twin.wire.kube import JsonObject, KubeError

_NOTHING: Final = Grown((), {}, 0)
_PATHS: Final = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments/{}",
    GROUP: "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets/{}",
}
"""Path of a replica's object by its kind."""
_ENDED: Final = "on nodes that are gone"


class Api(Protocol):
    """A cluster's API server."""

    def list(self, path: str) -> list[JsonObject]:
        """Return the items of a collection."""
        ...

    def get(self, path: str) -> JsonObject:
        """Return one object."""
        ...


@dataclass(frozen=True)
class Site:
    """The cluster of a region, and the metrics of its engines."""

    plan: RegionPlan
    api: Api
    history: History
    """Raises `QueryError` or `CloudError`."""
    matchers: str | None = None
    """PromQL matchers of its series, besides the model's; default: cluster and location."""

    def matchers_of(self, jobs: Sequence[str]) -> str:
        """Return the PromQL matchers of the engines of some models."""
        own = self.matchers
        if own is None:
            own = f'cluster="{self.plan.cluster_name}",location="{self.plan.location}"'
        models = f'namespace="{self.plan.namespace}",job=~"{"|".join(jobs)}"'
        return f"{own},{models}" if own else models


@dataclass(frozen=True)
class Window:
    """The time that is compared."""

    minutes: float
    end: float
    """In seconds since 1970."""


def compare_stack(
    sites: Sequence[Site], window: Window, least_periods: int = LEAST_PERIODS
) -> list[Comparison]:
    """Return a comparison for each model and rung of each region.

    Rungs on which the engines of a model are equal, such as on-demand and spot machines of a type,
    are one.

    Raises:
        KubeError: A cluster does not answer.
        QueryError, CloudError: The metrics cannot be read.
    """
    return [row for site in sites for row in _compare_site(site, window, least_periods)]


def _compare_site(site: Site, window: Window, least_periods: int) -> Iterator[Comparison]:
    labels: dict[str, Labels] = {
        one["metadata"]["name"]: one["metadata"].get("labels") or {}
        for one in site.api.list("/api/v1/nodes")
    }
    by_engine: dict[str, list[ServedModel]] = {}
    for served in site.plan.served:
        by_engine.setdefault(served.settings.engine, []).append(served)
    for name, models in by_engine.items():
        found = _series(site, window, engine(name), models)
        for served in models:
            own = [each for each in found if each.labels.get("job") == served.object_name]
            yield from _compare_model(site, served, own, labels, least_periods)


def _series(
    site: Site, window: Window, facts: EngineFacts, models: Sequence[ServedModel]
) -> list[EngineSeries]:
    names, step = counters(facts.metrics), float(models[0].site.scrape_seconds)
    if not names:
        return []
    start = window.end - 60 * window.minutes
    return engines(
        lambda name: site.history(name, start, window.end, step),
        names,
        site.matchers_of([served.object_name for served in models]),
    )


@dataclass(frozen=True)
class _Same:
    """Rungs with equal engines."""

    label: str
    rungs: tuple[Rung, ...]
    deployment: Deployment


def _compare_model(
    site: Site,
    served: ServedModel,
    found: Sequence[EngineSeries],
    nodes: Mapping[str, Labels],
    least_periods: int,
) -> Iterator[Comparison]:
    title, where = engine(served.settings.engine).title, served.region

    def without(rung: str, why: str, grown: Grown = _NOTHING) -> Comparison:
        return Comparison(served.name, rung, title, grown, None, None, why, where)

    why = _why_not(served)
    if why is not None:
        yield without("all", why)
        return
    try:
        groups = _groups(site, served)
    except NotSimulatedError as error:
        yield without("all", f"not compared: {error}")
        return
    left = list(found)
    for same in groups:
        own = [each for each in found if any(_is_of(each, r, nodes) for r in same.rungs)]
        left = [each for each in left if each not in own]
        grown = together([each.grown() for each in own])
        row = compared(served.name, same.label, title, grown, same.deployment, least_periods)
        yield replace(row, region=where)
    if left:
        grown = together([each.grown() for each in left])
        yield without("unknown", f"not compared: {_ENDED}, or of no rung of the stack", grown)


def _is_of(found: EngineSeries, rung: Rung, nodes: Mapping[str, Labels]) -> bool:
    return is_on(rung, nodes.get(found.labels.get("node", ""), {}))


def _why_not(served: ServedModel) -> str | None:
    """Return why a model cannot be compared, or None."""
    facts = engine(served.settings.engine)
    if served.settings.task is not Task.GENERATE:
        return f"not compared: task {served.settings.task.value} has no times between tokens"
    if not counters(facts.metrics):
        return f"not compared: {facts.title} exports no time between tokens"
    if served.prefill is not None:
        return "not compared: disaggregated serving has no engine model"
    if served.is_on_kuberay:
        return "not compared: Ray clusters have no engine model"
    return None


def _groups(site: Site, served: ServedModel) -> list[_Same]:
    """Return the rungs of a model, those with equal engines together.

    Raises:
        NotSimulatedError: Its engine has no model, or the cluster does not have it.
    """
    made: list[_Same] = []
    for kind, name in served.deployments.items():
        template, hosts = template_of(_item(site, name))
        for rung in served.rungs.values():
            if kind not in ("any", rung.kind):
                continue
            settings = settings_of(served, rung, template, hosts)
            at = next((n for n, each in enumerate(made) if each.deployment == settings), None)
            if at is None:
                made.append(_Same(rung.label, (rung,), settings))
            else:
                same = made[at]
                label = same.label if rung.label == same.label else f"{same.label}, {rung.label}"
                made[at] = _Same(label, (*same.rungs, rung), settings)
    return made


def _item(site: Site, name: str) -> JsonObject:
    for kind, path in _PATHS.items():
        try:
            found: dict[str, Any] = site.api.get(path.format(site.plan.namespace, name))
        except KubeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        else:
            return {"kind": kind, **found}
    raise NotSimulatedError(f"cluster {site.plan.cluster_name} has no Deployment {name}")
