"""The description of a stack for a rehearsal: from its plan, and from its rendered objects.

What the control plane acts on is read from the objects (compute classes, pods, autoscalers), as the
twin reads it. Latency objectives, limits and start times are the plan's.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from gke_inference.catalogue.engine_metrics import SCHEDULED_REPLICAS, cloud_monitoring_name
from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.rungs import Rung
from gke_inference.clients.settings import Priority
from gke_inference.cluster.settings import ClusterMode
from infra.estimate.cold_starts import starts
from infra.plan import Plan, RegionPlan, ServedModel
from infra.plan.backends import fallback_of
from infra.plan.clients import team_in
from infra.stack import Fleet, Task
from infra.stack import Front as FrontKind
from planner.choice.coldstart import ENGINE_STAGES, POD_STAGES
from policies.framework.reading import CLUSTER, NODE_POOL
from scripts.rehearse.engine_settings import GROUP, NotSimulatedError, settings_of, template_of
from scripts.terminal.console import CommandError
from simulator.engine.settings import Deployment
from simulator.rehearsal import horizontal
from simulator.rehearsal.changes import Rolling, Surge, Upgrades
from simulator.rehearsal.description import (
    Fallback,
    Front,
    Hardware,
    Limit,
    Model,
    Platform,
    Region,
    Signal,
    Slo,
    Team,
    Times,
    Workload,
)
from twin.cluster.autoscaler import pods as autoscaler_pods
from twin.cluster.autoscaler.pods import Pod
from twin.cluster.autoscaler.rungs import parse_class
from twin.cluster.base.fields import part, parts
from twin.cluster.nodes import pool_spec
from twin.cluster.nodes.pool_spec import PoolSpec
from twin.wire.kube import JsonObject
from twin.world.capacity import StockLine, World
from twin.world.regions import default_zones
from twin.world.rules import Rules

_BACKEND = "gcp:compute/backendService:BackendService"
_REPLICAS = "gke-inference/replicas"
_EXTENSIONS = ("GCPRoutingExtension", "GCPTrafficExtension")
_GRACE = "terminationGracePeriodSeconds"
_SCHEDULED = cloud_monitoring_name(SCHEDULED_REPLICAS)


@dataclass
class Described:
    """A platform, and what is left out of it."""

    platform: Platform
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    """Reason by model."""
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    """Model that answers to a further name, such as that of an adapter."""
    contexts: dict[str, int] = field(default_factory=dict[str, int])
    """Longest prompt and answer of each model, in tokens."""


def describe(
    plan: Plan,
    objects: Mapping[str, Sequence[JsonObject]],
    states: Sequence[Mapping[str, Any]],
    rules: Rules | None = None,
) -> Described:
    """Return the description of a stack.

    Args:
        plan: Resolved stack.
        objects: Kubernetes objects by the name of their cluster.
        states: All resources, for the node pools.
        rules: Rules on the clock of the rehearsal; default: Google's.

    Raises:
        CommandError: The stack has no model that can be rehearsed.
    """
    return _Describer(plan, objects, states, rules or Rules(1.0)).describe()


class _Describer:
    def __init__(
        self,
        plan: Plan,
        objects: Mapping[str, Sequence[JsonObject]],
        states: Sequence[Mapping[str, Any]],
        rules: Rules,
    ) -> None:
        self._plan = plan
        self._objects = objects
        self._states = states
        self._rules = rules
        self._engines: list[Deployment] = []
        self._left_out: dict[str, str] = {}
        self._starts = {(one.model, one.region, one.rung): one.start for one in starts(plan)}

    def describe(self) -> Described:
        """Return the description."""
        workloads: list[Workload] = []
        for region in self._plan.regions.values():
            if not region.served:
                continue
            items = self._objects.get(region.cluster_name, ())
            for served in region.served:
                workloads += self._workloads(served, items)
        workloads = [each for each in workloads if each.pool not in self._left_out]
        models = tuple(self._models({each.pool for each in workloads}))
        if not models:
            reasons = "; ".join(f"{name}: {why}" for name, why in self._left_out.items())
            raise CommandError(
                f"STACK: must have a model whose engine is simulated ({reasons or 'no model'})"
            )
        used = {each.region for each in workloads}
        front = self._front()
        platform = Platform(
            project=self._plan.project.id,
            regions=tuple(
                self._region(region) for name, region in self._plan.regions.items() if name in used
            ),
            models=models,
            workloads=tuple(workloads),
            programs=() if front.overflow_percent is not None else tuple(self._programs(used)),
            engines=tuple(self._engines),
            times=Times(self._rules, float(self._plan.platform.monitoring.scrape_seconds)),
            front=front,
            teams=self._teams([name for name in self._plan.regions if name in used]),
            world=World(stock=tuple(self._reservations())),
            calendar=frozenset(
                name for name, rung in self._reserved() if rung.provisioning == "calendar"
            ),
        )
        aliases = {
            adapter: name
            for name, model in self._plan.platform.models.items()
            for adapter in model.adapters
        }
        contexts = {name: model.context for name, model in self._plan.platform.models.items()}
        return Described(platform, self._left_out, aliases, contexts)

    def _front(self) -> Front:
        """Return the front, with the outlier detection of its backends."""
        gateway = self._plan.front.gateway
        if gateway.has_fleet_gateway:
            fleet = gateway.fleet or Fleet()
            return Front(overflow_percent=fleet.target_utilization_percent)
        front = Front(gateway.front is FrontKind.GLOBAL)
        for state in self._states:
            inputs: JsonObject = state.get("inputs") or {}
            detection = part(inputs, "outlierDetection")
            if state["type"] == _BACKEND and detection:
                failures = int(detection["consecutiveErrors"])
                seconds = float(part(detection, "baseEjectionTime")["seconds"])
                return replace(front, failures=failures, ejection_seconds=seconds)
        return front

    # -- models and teams

    def _models(self, pools: set[str]) -> Iterator[Model]:
        served = [every[0] for every in self._plan.models.values()]
        for first in served:
            name = first.name
            if first.version is not None or name not in pools:
                continue
            canaries = {
                one.name: one.version.percent
                for one in served
                if one.version is not None and one.version.of == name and one.name in pools
            }
            rest = 100 - sum(canaries.values())
            versions = [(name, rest / 100), *((k, v / 100) for k, v in canaries.items())]
            slo = first.settings.slo
            yield Model(
                name,
                tuple(versions),
                Slo() if slo is None else Slo(slo.ttft_p95_ms, slo.tpot_p95_ms),
                float(first.settings.timeout_seconds),
                first.settings.task is Task.EMBED,
                self._fallback(first),
                self._price(name),
            )

    def _price(self, name: str) -> tuple[float, float]:
        """Return the price of a model's tokens for the budgets of teams, per million."""
        clients = self._plan.clients
        price = None if clients is None else clients.settings.prices.get(name)
        if price is None:
            return 0.0, 0.0
        return price.input_usd_per_million, price.output_usd_per_million

    def _fallback(self, served: ServedModel) -> Fallback | None:
        """Return the backend that answers for a model at capacity."""
        fallback, backends = fallback_of(served), self._plan.backends
        if fallback is None or backends is None:
            return None
        price = backends.prices[fallback.backend]
        return Fallback(
            fallback.after_queue,
            fallback.monthly_usd,
            price.input_usd_per_million,
            price.output_usd_per_million,
            float(backends.settings[fallback.backend].timeout_seconds),
        )

    def _teams(self, regions: Sequence[str]) -> dict[str, Team]:
        clients = self._plan.clients
        if clients is None:
            return {}
        gated = self._plan.platform.regions_with_gateway()
        names = self._plan.platform.models
        found: dict[str, Team] = {}
        for name, team in clients.settings.teams.items():
            limits: dict[str, Limit] = {}
            for region in regions:
                if region in gated:
                    own = team_in(team, region, gated)
                    limits[region] = Limit(
                        own.requests_per_minute, own.tokens_per_minute,
                        own.tokens_per_month, own.monthly_usd,
                    )  # fmt: skip
            models = None if team.models is None else frozenset(team.models) & names.keys()
            found[name] = Team(limits, models, team.priority is Priority.BATCH)
        return found

    # -- regions

    def _region(self, region: RegionPlan) -> Region:
        zones = tuple(region.settings.zones) or default_zones(region.location)
        wait = self._rules.seconds("rung.flex-start.wait")
        items = self._objects.get(region.cluster_name, ())
        classes = [
            parse_class(item, zones, wait) for item in items if item["kind"] == "ComputeClass"
        ]
        return Region(
            region.name,
            zones,
            {each.name: each for each in classes},
            {each.name: each for each in self._pools(region, zones)},
            self._upgrades(region),
        )

    def _upgrades(self, region: RegionPlan) -> Upgrades:
        """Return the surge settings of the pools of a region, and of those that GKE creates."""
        by_pool: dict[str, Surge] = {}
        created = Surge()
        for state in self._states:
            inputs: JsonObject = state.get("inputs") or {}
            if state["type"] == NODE_POOL and inputs.get("cluster") == region.cluster_name:
                by_pool[str(inputs["name"])] = _surge(part(inputs, "upgradeSettings"), Surge(1, 0))
            elif state["type"] == CLUSTER and inputs.get("name") == region.cluster_name:
                defaults = part(part(inputs, "clusterAutoscaling"), "autoProvisioningDefaults")
                created = _surge(part(defaults, "upgradeSettings"), created)
        return Upgrades(by_pool, created)

    def _pools(self, region: RegionPlan, zones: tuple[str, ...]) -> Iterator[PoolSpec]:
        for state in self._states:
            inputs: JsonObject = state.get("inputs") or {}
            if state["type"] != NODE_POOL or inputs.get("cluster") != region.cluster_name:
                continue
            placed = tuple(inputs.get("nodeLocations") or zones)
            yield pool_spec.parse({"name": inputs["name"], "inputs": inputs, "zones": placed})

    def _reserved(self) -> Iterator[tuple[str, Rung]]:
        """Yield the rungs with a reservation, each with the name that its nodes have."""
        for region in self._plan.regions.values():
            for capacity in region.used_capacity:
                for rung in capacity.rungs.values():
                    if rung.reservation is not None:
                        owner, name = rung.reservation_project, rung.reservation
                        yield (
                            name if owner is None else f"projects/{owner}/reservations/{name}",
                            rung,
                        )

    def _reservations(self) -> Iterator[StockLine]:
        """Yield the reservations that the stack names; how large they are is not known."""
        seen: set[tuple[str, str, str]] = set()
        for name, rung in self._reserved():
            for zone in rung.reservation_zones:
                key = (zone, rung.accelerator, name)
                if key not in seen:
                    seen.add(key)
                    yield StockLine(
                        zone=zone, accelerator=rung.accelerator, provisioning="reservation",
                        reservation=name, chips="unlimited",
                    )  # fmt: skip

    # -- workloads

    def _workloads(self, served: ServedModel, items: Sequence[JsonObject]) -> list[Workload]:
        why = self._why_not(served)
        if why is not None:
            self._left_out[served.name] = why
            return []
        try:
            return [
                self._workload(served, kind, name, items)
                for kind, name in served.deployments.items()
            ]
        except NotSimulatedError as error:
            self._left_out[served.name] = str(error)
            return []

    @staticmethod
    def _why_not(served: ServedModel) -> str | None:
        if served.settings.task not in (Task.GENERATE, Task.EMBED):
            return f"task {served.settings.task.value} has no simulated engine in steps"
        if served.prefill is not None:
            return "disaggregated serving is not rehearsed"
        if served.is_on_kuberay:
            return "Ray clusters are not rehearsed"
        if served.is_from_zero:
            return "requests that wait for a first replica (replicas.min: 0) are not rehearsed"
        return None

    def _workload(
        self, served: ServedModel, kind: str, name: str, items: Sequence[JsonObject]
    ) -> Workload:
        item = next(
            each
            for each in items
            if each["metadata"]["name"] == name and each["kind"] in ("Deployment", GROUP)
        )
        template, hosts = template_of(item)
        scaler = next(
            (
                horizontal.parse(each)
                for each in items
                if each["kind"] == "HorizontalPodAutoscaler" and each["metadata"]["name"] == name
            ),
            None,
        )
        annotated = part(item["metadata"], "annotations").get(_REPLICAS)
        replicas = int(annotated or item["spec"].get("replicas") or 0)
        if scaler is not None:
            replicas = max(replicas, scaler.minimum)
        pods = tuple(_pods(template, hosts, served.namespace, name, items))
        filled = served.deployments.get(served.capacity.kinds[0])
        metrics = () if scaler is None else scaler.metrics
        external = {metric.name for metric in metrics if metric.is_external}
        scheduled, schedule = external & {_SCHEDULED}, served.schedules.get(name)
        return Workload(
            name=name,
            region=served.region,
            pool=served.name,
            pods=pods,
            replicas=replicas,
            hardware=self._hardware(served, kind, template, hosts),
            scaler=scaler,
            signals=_signals(served, metrics),
            follows={metric: filled for metric in external - scheduled if filled is not None},
            schedules={} if schedule is None else dict.fromkeys(scheduled, schedule),
            grace_seconds=float(template["spec"].get(_GRACE, 30)),
            rolling=_rolling(item),
        )

    def _programs(self, regions: Set[str]) -> Iterator[Workload]:
        """Yield the callouts without which a gateway answers 500: extensions that fail closed.

        Those of an Autopilot cluster are left out: it makes nodes for them in any zone.
        """
        starts = self._rules.seconds("agent.image.small")
        for name, region in self._plan.regions.items():
            if name not in regions or region.settings.mode is ClusterMode.AUTOPILOT:
                continue
            items = self._objects.get(region.cluster_name, ())
            needed = {
                str(each["backendRef"]["name"])
                for item in items
                if item["kind"] in _EXTENSIONS
                for chain in parts(item["spec"], "extensionChains")
                for each in parts(chain, "extensions")
                if not each.get("failOpen")
            }
            for item in items:
                own: str = item["metadata"]["name"]
                if item["kind"] == "Deployment" and own in needed:
                    template: JsonObject = item["spec"]["template"]
                    namespace = str(item["metadata"].get("namespace"))
                    yield Workload(
                        name=own,
                        region=name,
                        pool="",
                        pods=tuple(_pods(template, 1, namespace, own, items)),
                        replicas=int(item["spec"].get("replicas") or 1),
                        hardware={},
                        grace_seconds=float(template["spec"].get(_GRACE, 30)),
                        starts_seconds=starts,
                    )

    def _hardware(
        self, served: ServedModel, kind: str, template: JsonObject, hosts: int
    ) -> dict[str, Hardware]:
        found: dict[str, Hardware] = {}
        for rung in served.rungs.values():
            if kind not in ("any", rung.kind) or rung.machine_type in found:
                continue
            made = settings_of(served, rung, template, hosts)
            if made not in self._engines:
                self._engines.append(made)
            model = served.name if served.version is None else served.version.of
            start = self._starts[model, served.region, rung.label]
            found[rung.machine_type] = Hardware(
                self._engines.index(made),
                start.seconds_of(POD_STAGES),
                start.seconds_of(ENGINE_STAGES),
            )
        return found


def _surge(settings: JsonObject, usual: Surge) -> Surge:
    """Return surge settings; without any, GKE's default of one more node."""
    if not settings:
        return usual
    extra, unavailable = settings.get("maxSurge"), settings.get("maxUnavailable")
    return Surge(int(extra or 0), int(unavailable or 0))


def _rolling(item: JsonObject) -> Rolling:
    """Return the update strategy of an object, by default Kubernetes' 25 percent."""
    if item["kind"] == GROUP:
        strategy = part(part(item["spec"], "rolloutStrategy"), "rollingUpdateConfiguration")
        surge, unavailable = strategy.get("maxSurge", 0), strategy.get("maxUnavailable", 1)
    else:
        strategy = part(part(item["spec"], "strategy"), "rollingUpdate")
        surge, unavailable = strategy.get("maxSurge", "25%"), strategy.get("maxUnavailable", "25%")
    return Rolling(*(each if isinstance(each, str) else int(each) for each in (surge, unavailable)))


def _pods(
    template: JsonObject, hosts: int, namespace: str, name: str, items: Sequence[JsonObject]
) -> Iterator[Pod]:
    claims = {
        f"{each['metadata'].get('namespace')}/{each['metadata']['name']}": each
        for each in items
        if each["kind"] == "ResourceClaimTemplate"
    }
    meta = {**template["metadata"], "namespace": namespace, "uid": name, "name": name}
    pod = autoscaler_pods.parse({"metadata": meta, "spec": template["spec"]}, templates=claims)
    for _ in range(hosts):
        yield replace(pod)


def _signals(served: ServedModel, metrics: Sequence[horizontal.Metric]) -> dict[str, Signal]:
    """Return what each metric of an autoscaler measures.

    Raises:
        NotSimulatedError: A metric is not of a simulated engine.
    """
    names = engine(served.settings.engine).metrics
    known: dict[str, Signal] = dict.fromkeys(names.busy, "running")
    known[names.queue] = "waiting"  # which `busy` also has
    if names.kv_cache is not None:
        known[names.kv_cache] = "kv_usage"
    found: dict[str, Signal] = {}
    for metric in metrics:
        if metric.is_external:
            continue
        bare = metric.name.split("|")[1] if "|" in metric.name else metric.name
        by_name: dict[str, Signal] = {name.partition("{")[0]: known[name] for name in known}
        signal = by_name.get(bare)
        if signal is None:
            raise NotSimulatedError(f"the metric {bare} of its autoscaler is not simulated")
        found[metric.name] = signal
    return found
