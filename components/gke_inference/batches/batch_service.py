"""OpenAI's Batch API behind a Gateway: the service, its route, and its workers."""

from typing import Any

import pulumi

from gke_inference.base.inputs import under
from gke_inference.base.manifests import (
    Manifest,
    deployment,
    disruption_budget,
    fingerprint,
    fixed_size,
    labels_for,
    manifest,
    register,
    scraping,
    service,
)
from gke_inference.catalogue.engine_metrics import cloud_monitoring_name
from gke_inference.catalogue.versions import api
from gke_inference.gateway import routes as gateway_routes
from gke_inference.gateway.router import BATCH_PATHS
from gke_inference.gateway.settings import LOG_PERCENT, Exposure
from gke_inference.settings.fields import DEADLINE_SECONDS

from .pods import FILE, SERVICE, WORKER, network_policy, service_pod, worker_pod
from .program import (
    PORT,
    REPLICAS,
    SHARD_LINES,
    BatchServiceArgs,
    checked_service,
    document,
)
from .settings import MAX_WORKERS, MIN_WORKERS

BACKLOG = "gke_inference_batch_backlog"
"""Series of waiting requests, exported by the service."""
_CALL_SECONDS = 600
"""Maximum duration of a call: an upload or download of 200 MB."""
_SCALE_IN_SECONDS = 300


class BatchService(pulumi.ComponentResource):
    """Files and batches of teams in a bucket, and workers that send the requests to models.

    Requests are sent at least once and have one output line each. Pass the cluster's Kubernetes
    provider in `opts`.
    """

    service_name: pulumi.Output[str]
    """Name of the Service."""

    def __init__(
        self, name: str, args: BatchServiceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:BatchService", name, {}, opts)
        restarts = _plain(args)
        args = checked_service(args)
        given = {"bucket": args["bucket"], "endpoint": args["endpoint"]}
        jobs = pulumi.Output.all(**(args.get("engines", {})))
        content = pulumi.Output.all(jobs=jobs, **given).apply(
            lambda found: document(args, found, found["jobs"])
        )
        made: list[pulumi.Resource] = []
        objects = _objects(args, content, restarts)
        if args.get("engines"):  # the service reads its settings once
            found = objects["deployment"]["spec"]["template"]["metadata"]
            found["annotations"]["gke-inference/engines"] = jobs.apply(fingerprint)
        for role, obj in objects.items():
            logical = name if role == "deployment" else f"{name}-{role}"
            made.append(register(logical, obj, under(self, depends_on=list(made))))
        self.service_name = made[-1].urn.apply(lambda _: args["service_name"])
        self.register_outputs({"serviceName": self.service_name})


def _plain(args: BatchServiceArgs) -> dict[str, Any]:
    """Return the plain values that were given. Pods restart when they change."""
    return {
        key: value
        for key, value in args.items()
        if not isinstance(value, pulumi.Output) and key != "engines"
    }


def _objects(args: BatchServiceArgs, content: Any, restarts: Any) -> dict[str, Manifest]:
    """Return the objects by role, in creation order.

    Args:
        args: Inputs of the component.
        content: Settings of the programs.
        restarts: Pods restart when it changes.
    """
    name, namespace = args["service_name"], args["namespace"]
    worker = f"{name}-worker"
    labels = labels_for(name, SERVICE)
    deadline = args.get("deadline_seconds", DEADLINE_SECONDS)
    ports: list[Manifest] = [{"name": "http", "port": PORT, "targetPort": "http"}]
    workers = deployment(
        worker, namespace, WORKER, worker_pod(args, worker, deadline), 1, files=restarts
    )
    del workers["spec"]["replicas"]  # managed by the autoscaler
    found = {
        "settings": manifest("config_map", name, namespace, labels=labels, data={FILE: content}),
        "deployment": deployment(
            name, namespace, SERVICE, service_pod(args), REPLICAS, files=restarts
        ),
        "budget": disruption_budget(name, namespace, SERVICE),
        "service": service(name, namespace, SERVICE, ports),
        "monitoring": scraping(name, namespace, SERVICE),
        "workers": workers,
        "workers-budget": disruption_budget(worker, namespace, WORKER),
        "workers-monitoring": scraping(worker, namespace, WORKER),
        "workers-scaling": _autoscaler(args, worker),
    }
    callers = args.get("callers")
    if callers is not None:
        found["policy"] = network_policy(name, namespace, SERVICE, callers, is_called=True)
        found["workers-policy"] = network_policy(
            worker, namespace, WORKER, callers, is_called=False
        )
    policies = gateway_routes.policies(
        name,
        namespace,
        api("service"),
        health_path="/health",
        port=PORT,
        timeout_seconds=_CALL_SECONDS,
        log_percent=args.get("log_percent", LOG_PERCENT),
        security_policy=args["gateway_name"] if args["exposure"] is Exposure.EXTERNAL else None,
    )
    found |= dict(zip(("health", "edge"), policies, strict=True))
    return {**found, "route": _route(args)}


def _route(args: BatchServiceArgs) -> Manifest:
    """Return the HTTPRoute. Its paths are longer than those of models and take precedence."""
    name, namespace = args["service_name"], args["namespace"]
    reference = api("service").reference(name, port=PORT, weight=1)
    matches = [{"path": {"type": "PathPrefix", "value": path}} for path in BATCH_PATHS]
    head = gateway_routes.route_head(namespace, args["gateway_name"], args.get("hostname"))
    rules = [gateway_routes.rule_of([reference], matches)]
    labels = labels_for(name, SERVICE)
    return manifest("http_route", name, namespace, labels=labels, spec={**head, "rules": rules})


def _autoscaler(args: BatchServiceArgs, worker: str) -> Manifest:
    """Return the HorizontalPodAutoscaler: one worker per share of waiting requests."""
    kind = api("deployment")
    least, most = args.get("min_workers", MIN_WORKERS), args.get("max_workers", MAX_WORKERS)
    selector = {
        "resource.labels.cluster": args["cluster_name"],
        "resource.labels.namespace": args["namespace"],
    }
    return manifest(
        "autoscaler",
        worker,
        args["namespace"],
        labels=labels_for(worker, WORKER),
        annotations=fixed_size(least, most),
        spec={
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": _SCALE_IN_SECONDS}},
            "maxReplicas": most,
            "metrics": [
                {
                    "external": {
                        "metric": {
                            "name": cloud_monitoring_name(BACKLOG),
                            "selector": {"matchLabels": selector},
                        },
                        "target": {"averageValue": str(SHARD_LINES), "type": "AverageValue"},
                    },
                    "type": "External",
                }
            ],
            "minReplicas": least,
            "scaleTargetRef": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": worker,
            },
        },
    )
