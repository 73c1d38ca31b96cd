"""Autoscaling by queue length, KV cache utilization, schedules and unscheduled pods."""

from typing import Annotated, Literal, NotRequired, TypedDict

import pulumi
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import camel, under
from gke_inference.base.manifests import Manifest, fixed_size, labels_for, manifest, register
from gke_inference.catalogue.engine_metrics import (
    DEMANDED_REPLICAS,
    SCHEDULED_REPLICAS,
    UNPLACED_REPLICAS,
    cloud_monitoring_name,
)
from gke_inference.catalogue.engines import DEFAULT_ENGINE, EngineName, engine, series
from gke_inference.catalogue.versions import api
from gke_inference.intent.replicas import ReplicaRange, range_problems
from gke_inference.intent.settings import ReplicaCount

from .settings import (
    SCALE_IN_DELAY_SECONDS,
    SCALE_IN_EVERY_SECONDS,
    ScaleInDelay,
    ScaleInInterval,
    ScalingTargets,
)

_SIGNALS = ("queue", "kv-cache")
Signal = Literal["queue", "kv-cache"]
TargetKind = Literal["Deployment", "LeaderWorkerSet", "RayClusterSet"]
_TARGETS = {
    "Deployment": "deployment",
    "LeaderWorkerSet": "leader_worker_set",
    "RayClusterSet": "ray_cluster_set",
}


class AutoscalingArgs(TypedDict):
    """Inputs of `Autoscaling`."""

    model: str
    """Key of the model, the label `model` of its recorded series."""
    namespace: str
    """Namespace of the target."""
    replicas: ReplicaRange
    """Replicas of the model. With a schedule, the target has at least its replicas, which
    `Monitoring` records. With a minimum of 0, it has at least one replica while its model has or
    recently had requests, which `Monitoring` records as well, and the cluster must support scaling
    to zero (`gke_minimum("hpa-scale-to-zero")`)."""
    target_name: str
    """Name of the target, and of the autoscaler."""
    chips_by_model: NotRequired[dict[str, Annotated[int, Field(ge=1)]]]
    """Chips of a replica that hold one model alone, by the model's name. The queue of each model is
    then a signal of its own, with the share of `targets.queue_depth` that its chips are of all.
    Default: none, a replica has one queue for all models."""
    cluster_location: NotRequired[str]
    """Region or zone of the cluster. Required with a schedule, with `standby` and with a minimum of
    0."""
    cluster_name: NotRequired[str]
    """Cluster of the target. Required with a schedule, with `standby` and with a minimum of 0,
    since Cloud Monitoring has the series of every cluster in the project, and another region's
    must not count."""
    engine: NotRequired[EngineName]
    """Engine of the target, which determines its metric names. Default: `vllm`."""
    scale_in_delay_seconds: NotRequired[ScaleInDelay]
    """Scale-in stabilization window in seconds. Default: 300, since a replica takes minutes to
    start."""
    scale_in_every_seconds: NotRequired[ScaleInInterval]
    """Minimum seconds between the removal of two replicas. Default: 120."""
    signals: NotRequired[Annotated[list[Signal], Field(min_length=1)]]
    """Scaling signals. In disaggregated serving, prefill follows its
    queue and decode its KV cache. Default: both, or only the queue if the engine does not report KV
    cache utilization."""
    standby: NotRequired[ReplicaCount]
    """Warm replicas of a Deployment that fills in for the other one of a pair: its minimum, instead
    of `replicas.min` and of the schedule. It gets one more replica for each of the other that has
    no node. 0 only if the cluster supports scaling to zero (`gke_minimum("hpa-scale-to-zero")`).
    Default: the target does not fill in."""
    targets: NotRequired[ScalingTargets]
    """Target load of each replica. Default: 5 waiting requests, and 80 percent of the KV cache."""
    target_kind: NotRequired[TargetKind]
    """`Deployment` (default); `LeaderWorkerSet`, of which only the leaders' metrics count; or
    `RayClusterSet`, of which only the heads' metrics count."""


class Autoscaling(pulumi.ComponentResource):
    """A HorizontalPodAutoscaler on queue depth, KV cache utilization and, optionally, batch size.

    Each metric proposes a number of replicas and the largest wins. CPU is not used, nor is the
    accelerator's duty cycle, which reads 100 percent long before a server is at capacity. The
    cluster needs a metrics adapter, such as `MetricsAdapter`.
    """

    hpa_name: pulumi.Output[str]
    """Name of the autoscaler, which is that of its target."""

    def __init__(
        self, name: str, args: AutoscalingArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:Autoscaling", name, {}, opts)
        args = checked(AutoscalingArgs, args)
        _check(args)
        register(name, autoscaler(args), under(self))
        self.hpa_name = pulumi.Output.from_input(args["target_name"])
        self.register_outputs({"hpaName": self.hpa_name})


def autoscaler(args: AutoscalingArgs) -> Manifest:
    """Return the HorizontalPodAutoscaler."""
    kind = api(_TARGETS[args.get("target_kind", "Deployment")])
    replicas, standby = args["replicas"], args.get("standby")
    least = replicas.min if standby is None else standby
    targets = args.get("targets", ScalingTargets())
    names = engine(args.get("engine", DEFAULT_ENGINE)).metrics
    signals = {"queue": _queues(args, targets.queue_depth)}
    if names.kv_cache is not None:
        signals["kv-cache"] = [_per_pod(names.kv_cache, f"{targets.kv_cache_percent * 10}m")]
    followed = args.get("signals", _SIGNALS)
    metrics = [each for signal, found in signals.items() if signal in followed for each in found]
    if targets.running_requests is not None:
        metrics.append(_per_pod(names.busy[-1], str(targets.running_requests)))
    for record in _recorded(args).values():
        metrics.insert(0, record)
    return manifest(
        "autoscaler",
        args["target_name"],
        args["namespace"],
        labels=labels_for(args["target_name"], "autoscaling"),
        annotations=fixed_size(least, replicas.max),
        spec={
            "behavior": _behavior(
                args.get("scale_in_delay_seconds", SCALE_IN_DELAY_SECONDS),
                args.get("scale_in_every_seconds", SCALE_IN_EVERY_SECONDS),
            ),
            "maxReplicas": replicas.max,
            "metrics": metrics,
            "minReplicas": least,
            "scaleTargetRef": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": args["target_name"],
            },
        },
    )


def _queues(args: AutoscalingArgs, depth: int) -> list[Manifest]:
    """Return the metric of the queue, or one for each model with chips of its own."""
    names, chips = (
        engine(args.get("engine", DEFAULT_ENGINE)).metrics,
        args.get("chips_by_model", {}),
    )
    if not chips:
        return [_per_pod(names.queue, str(depth))]
    every = sum(chips.values())
    return [
        _per_pod(f"{names.model_queue}{{model_name={model}}}", _quantity(depth * own, every))
        for model, own in chips.items()
    ]


def _quantity(amount: int, parts: int) -> str:
    """Return a part of an amount as Kubernetes writes it, rounded down to thousandths."""
    whole, rest = divmod(amount * 1000 // parts, 1000)
    return f"{whole * 1000 + rest}m" if rest else str(whole)


def _behavior(scale_in_delay_seconds: int, scale_in_every_seconds: int) -> Manifest:
    return {
        "scaleDown": {
            "policies": [{"periodSeconds": scale_in_every_seconds, "type": "Pods", "value": 1}],
            "selectPolicy": "Max",
            "stabilizationWindowSeconds": scale_in_delay_seconds,
        },
        "scaleUp": {
            "policies": [
                {"periodSeconds": 15, "type": "Percent", "value": 100},
                {"periodSeconds": 15, "type": "Pods", "value": 4},
            ],
            "selectPolicy": "Max",
            "stabilizationWindowSeconds": 0,
        },
    }


def _per_pod(metric: str, average: str) -> Manifest:
    name, labels = series(metric)
    asked: Manifest = {"name": cloud_monitoring_name(name)}
    if labels:
        chosen = {f"metric.labels.{label}": value for label, value in labels.items()}
        asked["selector"] = {"matchLabels": chosen}
    return {
        "pods": {
            "metric": asked,
            "target": {"averageValue": average, "type": "AverageValue"},
        },
        "type": "Pods",
    }


def _recorded(args: AutoscalingArgs) -> dict[str, Manifest]:
    """Return the metrics that `Monitoring` records, by the input that requires each."""
    replicas = args["replicas"]
    standby = args.get("standby")
    if standby is not None:
        return {"standby": _external(args, UNPLACED_REPLICAS)}
    found: dict[str, Manifest] = {}
    if replicas.min == 0:
        found["replicas.min 0"] = _external(args, DEMANDED_REPLICAS)
    if replicas.schedule is not None:
        labels = {"metric.labels.scale_target": args["target_name"]}
        found["replicas.schedule"] = _external(args, SCHEDULED_REPLICAS, labels)
    return found


def _external(args: AutoscalingArgs, record: str, labels: dict[str, str] | None = None) -> Manifest:
    """Return the metric of this cluster's recorded series, selected by `resource.labels`.

    Its value is a number of replicas.
    """
    selected = {
        "metric.labels.model": args["model"],
        **(labels or {}),
        "resource.labels.cluster": args.get("cluster_name", ""),
        "resource.labels.location": args.get("cluster_location", ""),
        "resource.labels.namespace": args["namespace"],
    }
    return {
        "external": {
            "metric": {
                "name": cloud_monitoring_name(record),
                "selector": {"matchLabels": selected},
            },
            "target": {"averageValue": "1", "type": "AverageValue"},
        },
        "type": "External",
    }


def _check(args: AutoscalingArgs) -> None:
    replicas, standby = args["replicas"], args.get("standby")
    keep(range_problems("replicas", replicas))
    if standby is not None and standby > replicas.max:
        rule = f"must be at most replicas.max ({replicas.max}), got {standby}"
        raise pulumi.InputPropertyError("standby", rule)
    for field in ("cluster_location", "cluster_name"):
        for reason in _recorded(args):
            if not args.get(field):
                rule = f"must be set with {reason}, got none"
                raise pulumi.InputPropertyError(camel(field), rule)
    word = args.get("engine", DEFAULT_ENGINE)
    targets = args.get("targets", ScalingTargets())
    if targets.running_requests is not None and engine(word).metrics.running is None:
        raise pulumi.InputPropertyError(
            "targets.runningRequests",
            f"must not be set with engine {word!r}, which has no metric of running requests",
        )
    if args.get("chips_by_model") and engine(word).metrics.model_queue is None:
        raise pulumi.InputPropertyError(
            "chipsByModel", f"must not be set with engine {word!r}, which has one queue"
        )
    if "kv-cache" in args.get("signals", ()) and engine(word).metrics.kv_cache is None:
        raise pulumi.InputPropertyError(
            "signals", f"must be queue with engine {word!r}, which has no KV cache metric"
        )
