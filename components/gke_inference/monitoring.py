"""Scraping, recorded series and alerts of one model, as Managed Prometheus objects."""

from typing import NotRequired, TypedDict

import pulumi

from .engine_metrics import SCRAPED
from .inputs import under, whole
from .manifests import Manifest, labels_for, manifest, register
from .monitoring_rules import alert_rules, recording_rules


class MonitoringArgs(TypedDict):
    """Inputs of `Monitoring`."""

    deployments: list[str]
    """Accelerator Deployments of the model; their Pending pods raise an alert."""
    model: str
    """Key of the model: names the objects and is the label `model` of recorded series."""
    namespace: str
    """Namespace of the model's pods. Rules see only series of their own namespace."""
    selector: dict[str, str]
    """Labels of the pods to scrape."""
    filled_deployment: NotRequired[str]
    """Deployment whose Pending pods another one fills in for: the TPU one of a pair."""
    interval_seconds: NotRequired[int]
    """Seconds between scrapes, 5 to 300. Default 15."""
    pool_name: NotRequired[str]
    """InferencePool of the model; its picker's refusals raise an alert. Default: no such alert."""
    queue_limit: NotRequired[int]
    """Waiting requests per replica that raise an alert after 5 minutes. Default 20."""
    target_port: NotRequired[int]
    """Port of `/metrics`. Default 8000."""
    ttft_p95_ms: NotRequired[int]
    """Time to first token, 95th percentile, that raises an alert. Default: no such alert."""


class Monitoring(pulumi.ComponentResource):
    """A PodMonitoring with a keep-list, and Rules with the model's recorded series and alerts.

    The cluster's automatic application monitoring must be off for these pods, or everything is
    stored twice. `kube_pod_status_phase` comes from the cluster's own monitoring (component POD).
    """

    model: pulumi.Output[str]
    """Key of the model, the label `model` of its recorded series."""

    def __init__(
        self, name: str, args: MonitoringArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:Monitoring", name, {}, opts)
        _check(args)
        children = under(self)
        register(name, pod_monitoring(args), children)
        register(f"{name}-rules", rules(args), children)
        self.model = pulumi.Output.from_input(args["model"])
        self.register_outputs({"model": self.model})


def pod_monitoring(args: MonitoringArgs) -> Manifest:
    """Returns the PodMonitoring of the model's engines."""
    return manifest(
        "pod_monitoring",
        args["model"],
        args["namespace"],
        labels=labels_for(args["model"], "monitoring"),
        spec={
            "endpoints": [
                {
                    "interval": f"{int(args.get('interval_seconds', 15))}s",
                    "metricRelabeling": [
                        {
                            "action": "keep",
                            "regex": "|".join(SCRAPED),
                            "sourceLabels": ["__name__"],
                        }
                    ],
                    "path": "/metrics",
                    "port": int(args.get("target_port", 8000)),
                }
            ],
            "selector": {"matchLabels": dict(args["selector"])},
            "targetLabels": {"metadata": ["pod", "node", "top_level_controller_name"]},
        },
    )


def rules(args: MonitoringArgs) -> Manifest:
    """Returns the Rules of the model: first what is recorded, then the alerts."""
    groups: list[Manifest] = []
    filled = args.get("filled_deployment")
    if filled is not None:
        groups.append(
            {
                "interval": "15s",
                "name": f"{args['model']}-recorded",
                "rules": recording_rules(args["model"], args["namespace"], filled),
            }
        )
    slo = args.get("ttft_p95_ms")
    groups.append(
        {
            "interval": "30s",
            "name": f"{args['model']}-alerts",
            "rules": alert_rules(
                args["model"],
                args["namespace"],
                args["deployments"],
                pool_name=args.get("pool_name"),
                queue_limit=int(args.get("queue_limit", 20)),
                ttft_p95_ms=None if slo is None else int(slo),
            ),
        }
    )
    return manifest(
        "rules",
        args["model"],
        args["namespace"],
        labels=labels_for(args["model"], "monitoring"),
        spec={"groups": groups},
    )


def _check(args: MonitoringArgs) -> None:
    whole(args, "interval_seconds", 15, least=5, most=300)
    whole(args, "queue_limit", 20, least=1, most=1_000_000)
    whole(args, "target_port", 8000, least=1, most=65_535)
    whole(args, "ttft_p95_ms", 1, least=1, most=3_600_000)
    if not args["selector"]:
        raise pulumi.InputPropertyError("selector", "must have at least one label, got none")
    if not args["deployments"]:
        raise pulumi.InputPropertyError("deployments", "must have at least one name, got none")
    filled = args.get("filled_deployment")
    if filled is not None and filled not in args["deployments"]:
        known = ", ".join(args["deployments"])
        raise pulumi.InputPropertyError(
            "filledDeployment", f"must be one of deployments ({known}), got {filled!r}"
        )
