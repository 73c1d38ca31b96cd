"""Scraping and recorded series of one model, as Managed Prometheus objects."""

from typing import Annotated, NotRequired, TypedDict

import pulumi
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import under
from gke_inference.base.manifests import Manifest, labels_for, manifest, register
from gke_inference.catalogue.engine_metrics import (
    DEMANDED_REPLICAS,
    SCHEDULED_REPLICAS,
    UNPLACED_REPLICAS,
)
from gke_inference.catalogue.engines import DEFAULT_ENGINE, EngineName, engine
from gke_inference.catalogue.problems import one_of
from gke_inference.intent.schedule import ReplicaSchedule, overlap_problems
from gke_inference.observability.demanded import Demand, demanded_replicas, idle_problems
from gke_inference.observability.promql import ROLE
from gke_inference.observability.scheduled import scheduled_replicas
from gke_inference.observability.settings import SCRAPE_SECONDS, ScrapeSeconds
from gke_inference.settings.fields import Port


class MonitoringArgs(TypedDict):
    """Inputs of `Monitoring`."""

    deployments: Annotated[list[str], Field(min_length=1)]
    """Accelerator Deployments of the model."""
    model: str
    """Key of the model: names the objects and is the label `model` of recorded series."""
    namespace: str
    """Namespace of the model's pods. Rules read only series of their own namespace."""
    selector: Annotated[dict[str, str], Field(min_length=1)]
    """Labels of the pods to scrape."""
    demand: NotRequired[Demand]
    """Demand for the first replica of a model that scales to zero. It is a recorded series, which
    `Autoscaling` with `replicas.min` 0 follows."""
    engine: NotRequired[EngineName]
    """Engine of the pods, which determines the metrics to store. Default: `vllm`."""
    filled_deployment: NotRequired[str]
    """Deployment for whose unschedulable pods another one substitutes: the TPU Deployment of a
    pair."""
    groups: NotRequired[list[str]]
    """Those of `deployments` that are LeaderWorkerSets, where a replica is several pods and its
    leader counts."""
    role_label: NotRequired[str]
    """Pod label with the value `prefill` or `decode`, if a model has both. Its series then have the
    label `role`. Default: none."""
    has_kv_tiers: NotRequired[bool]
    """Whether the engines keep KV cache in tiers below the accelerator's memory. Their metrics are
    then stored, too. Default: false."""
    has_own_chips: NotRequired[bool]
    """Whether several models of a server have chips of their own. Metrics by model are then stored,
    too. Default: false."""
    interval_seconds: NotRequired[ScrapeSeconds]
    """Seconds between scrapes. Default: 15."""
    schedules: NotRequired[dict[str, ReplicaSchedule]]
    """Schedules of the minimum of replicas, by those of `deployments` that have one. Each is a
    recorded series, which `Autoscaling` follows."""
    target_port: NotRequired[Port]
    """Port of `/metrics`. Default: 8000."""


class Monitoring(pulumi.ComponentResource):
    """A PodMonitoring with a keep-list, and Rules with the model's recorded series.

    `Alerts` creates the alerts, once for all clusters of a project.

    Turn off the cluster's automatic application monitoring for these pods, or everything is stored
    twice. `kube_pod_status_unschedulable` comes from the cluster's own monitoring (component POD).
    """

    model: pulumi.Output[str]
    """Key of the model, the label `model` of its recorded series."""

    def __init__(
        self, name: str, args: MonitoringArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:Monitoring", name, {}, opts)
        args = checked(MonitoringArgs, args)
        _check(args)
        children = under(self)
        register(name, pod_monitoring(args), children)
        if recorded := recorded_series(args):
            register(f"{name}-rules", rules(args, recorded), children)
        self.model = pulumi.Output.from_input(args["model"])
        self.register_outputs({"model": self.model})


def pod_monitoring(args: MonitoringArgs) -> Manifest:
    """Return the PodMonitoring of the model's engines."""
    metrics = engine(args.get("engine", DEFAULT_ENGINE)).metrics
    stored = metrics.stored(
        has_own_chips=bool(args.get("has_own_chips", False)),
        has_tiers=bool(args.get("has_kv_tiers", False)),
    )
    labels: Manifest = {"metadata": ["pod", "node", "top_level_controller_name"]}
    if "role_label" in args:
        labels["fromPod"] = [{"from": args["role_label"], "to": ROLE}]
    return manifest(
        "pod_monitoring",
        args["model"],
        args["namespace"],
        labels=labels_for(args["model"], "monitoring"),
        spec={
            "endpoints": [
                {
                    "interval": f"{args.get('interval_seconds', SCRAPE_SECONDS)}s",
                    "metricRelabeling": [
                        {
                            "action": "keep",
                            "regex": "|".join(stored),
                            "sourceLabels": ["__name__"],
                        }
                    ],
                    "path": metrics.path,
                    "port": args.get("target_port", 8000),
                }
            ],
            "selector": {"matchLabels": dict(args["selector"])},
            "targetLabels": labels,
        },
    )


def rules(args: MonitoringArgs, recorded: list[Manifest]) -> Manifest:
    """Return the Rules of a model with its recorded series."""
    groups: list[Manifest] = [
        {
            "interval": "15s",
            "name": f"{args['model']}-recorded",
            "rules": recorded,
        }
    ]
    return manifest(
        "rules",
        args["model"],
        args["namespace"],
        labels=labels_for(args["model"], "monitoring"),
        spec={"groups": groups},
    )


def recorded_series(args: MonitoringArgs) -> list[Manifest]:
    """Return the recording rules of a model; most models have none."""
    filled = args.get("filled_deployment")
    recorded: list[Manifest] = []
    if filled is not None:
        is_group = filled in args.get("groups", [])
        recorded += recording_rules(args["model"], args["namespace"], filled, is_group=is_group)
    for target, schedule in args.get("schedules", {}).items():
        recorded.append(
            {
                "expr": scheduled_replicas(schedule),
                "labels": {"model": args["model"], "scale_target": target},
                "record": SCHEDULED_REPLICAS,
            }
        )
    if "demand" in args:
        metrics = engine(args.get("engine", DEFAULT_ENGINE)).metrics
        recorded.append(
            {
                "expr": demanded_replicas(
                    args["demand"], metrics, args["namespace"], args["deployments"]
                ),
                "labels": {"model": args["model"]},
                "record": DEMANDED_REPLICAS,
            }
        )
    return recorded


def _check(args: MonitoringArgs) -> None:
    filled = args.get("filled_deployment")
    if filled is not None and filled not in args["deployments"]:
        known = ", ".join(args["deployments"])
        raise pulumi.InputPropertyError(
            "filledDeployment", f"must be one of deployments ({known}), got {filled!r}"
        )
    if "demand" in args:
        interval = args.get("interval_seconds", SCRAPE_SECONDS)
        keep(idle_problems("demand.idle_seconds", args["demand"].idle_seconds, interval))
    schedules = args.get("schedules", {})
    keep(
        one_of("schedules", name, args["deployments"])
        for name in schedules
        if name not in args["deployments"]
    )
    keep(
        problem
        for name, schedule in schedules.items()
        for problem in overlap_problems(f"schedules.{name}", schedule)
    )


def recording_rules(
    model: str, namespace: str, deployment: str, *, is_group: bool = False
) -> list[Manifest]:
    """Return the series that another Deployment's autoscaler follows: replicas without a node.

    Of a LeaderWorkerSet, only leaders count, which are named NAME-GROUP. A pod that has a node and
    pulls its image is also Pending but needs no replacement, so only pods that the scheduler could
    not place count. The metric exists for such pods only, and an autoscaler whose metric has no
    value never scales in, so the absence of pods is recorded as 0. Pods of other models must not
    begin with the name of the Deployment, and a stack with such models is refused.
    """
    pods = f"{deployment}-[0-9]+" if is_group else f"{deployment}-.*"
    return [
        {
            "expr": _unschedulable(namespace, pods),
            "labels": {"model": model},
            "record": UNPLACED_REPLICAS,
        }
    ]


def _unschedulable(namespace: str, pods: str) -> str:
    """Return the expression for the number of pods that cannot be scheduled.

    In GKE's package POD (docs.cloud.google.com/kubernetes-engine/docs/how-to/kube-state-metrics).
    """
    return (
        f'sum(kube_pod_status_unschedulable{{namespace="{namespace}",pod=~"{pods}"}}) or vector(0)'
    )
