"""The workers of a stream: a Deployment that follows the backlog, down to none where it may."""

import json
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import pulumi

from gke_inference.base.inputs import name_of, one_of, under, whole
from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    NAME_LABEL,
    Manifest,
    deployment,
    disruption_budget,
    hardened_pod,
    labels_for,
    manifest,
    register,
    spread,
)
from gke_inference.catalogue.engine_metrics import cloud_monitoring_name
from gke_inference.catalogue.versions import api, image

COMPONENT = "stream-worker"
"""Value of `app.kubernetes.io/component` on its objects."""
PORT = 9090
FILE = "settings.json"
BACKLOG = "pubsub.googleapis.com|subscription|num_undelivered_messages"
"""Metric of a subscription's backlog, as Google's metrics adapter names it."""
_LAG = "gke_inference_stream_backlog"
"""Series of a Kafka backlog, which the workers report."""
_FOLDER = "/etc/stream"
_KEY_FOLDER = "/etc/stream-key"
_KAFKA_FOLDER = "/etc/stream-kafka"
_USER = 1000
_END_SECONDS = 30
"""Beyond the deadline of a message, for a worker that has to go."""
_RESULTS = ("bigquery", "bucket", "topic")


class StreamWorkerArgs(TypedDict):
    """Inputs of `StreamWorker`."""

    dead_letters: pulumi.Input[str]
    """Topic of the dead letters."""
    endpoint: pulumi.Input[str]
    """URL of the gateway in front of the model."""
    model: str
    """Model that answers a message that names none."""
    names: list[str]
    """Models and adapters that a message may name."""
    namespace: str
    """Namespace of the workers."""
    results: dict[str, str]
    """`kind` (`topic`, `bucket` or `bigquery`) with `topic`, `bucket` and `prefix`, or `table`. A
    topic of Pub/Sub is `results_topic`."""
    service_account: str
    """Kubernetes service account of the workers."""
    stream_name: str
    """Name of the stream."""
    worker_name: str
    """Name of the workers' objects."""
    attempts: NotRequired[int]
    """Attempts at a message that the model may be able to answer, 1 to 20. Default 5."""
    backlog_per_worker: NotRequired[int]
    """Messages that one worker is for. Default 100."""
    brokers: NotRequired[list[str]]
    """Brokers of Kafka, `HOST:PORT` each. Default: the source is `subscription`."""
    cluster_name: NotRequired[str]
    """Cluster of the workers, needed with `brokers`, as the backlog is a series of their own."""
    deadline_seconds: NotRequired[int]
    """How long a message may be worked on, 10 to 3600. Default 600."""
    group: NotRequired[str]
    """Group of the consumers, with `brokers`."""
    kafka_secret: NotRequired[str]
    """Kubernetes Secret whose keys are settings of librdkafka, such as `sasl.password`."""
    key_secret: NotRequired[str]
    """Kubernetes Secret with the key of a team of clients in `key`, where the gateway wants one."""
    max_workers: NotRequired[int]
    """Most workers. Default 8."""
    metrics_namespace: NotRequired[str]
    """Namespace of Managed Prometheus' collectors. Default `gmp-system`."""
    min_workers: NotRequired[int]
    """Fewest workers; 0, the default, only where the cluster can scale to zero, and not with
    `brokers`."""
    network_policy: NotRequired[bool]
    """Whether only the collectors of metrics may reach the workers. Default yes."""
    objective: NotRequired[str]
    """InferenceObjective of the requests. Default none."""
    ordered: NotRequired[bool]
    """Whether messages of one key are answered one after another. Default no."""
    picker: NotRequired[str]
    """`HOST:PORT` of the metrics of the pool's picker. Default: the queue is not looked at."""
    requests_per_worker: NotRequired[int]
    """Most requests that one worker has under way, 1 to 200. Default 16."""
    results_topic: NotRequired[pulumi.Input[str]]
    """Topic of the answers, where they are messages."""
    scale_in_delay_seconds: NotRequired[int]
    """How long less backlog must last before workers go, 0 to 3600. Default 300: what is new is
    seen up to three minutes late."""
    source_topic: NotRequired[str]
    """Topic of Kafka, with `brokers`."""
    subscription: NotRequired[pulumi.Input[str]]
    """`projects/P/subscriptions/S` to read."""


class StreamWorker(pulumi.ComponentResource):
    """Workers that ask the model about each message, yield to others, and keep the answers.

    A message is answered at least once, and its answer kept once: by its id. Give the cluster's
    Kubernetes provider in `opts`.
    """

    worker_name: pulumi.Output[str]
    """Name of the Deployment, and of its autoscaler."""

    def __init__(
        self, name: str, args: StreamWorkerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:StreamWorker", name, {}, opts)
        name_of(args, "worker_name", "namespace")
        name_of(args, "namespace", "namespace")
        _check(args)
        given = {
            "dead_letters": args["dead_letters"],
            "endpoint": args["endpoint"],
            "subscription": args.get("subscription", ""),
            "topic": args.get("results_topic", ""),
        }
        content = pulumi.Output.all(**given).apply(lambda found: document(args, found))
        made: list[pulumi.Resource] = []
        for role, obj in worker_objects(args, content).items():
            logical = name if role == "deployment" else f"{name}-{role}"
            made.append(register(logical, obj, under(self, depends_on=list(made))))
        scaler = register(
            f"{name}-scaling",
            autoscaler(args, given["subscription"]),
            under(self, depends_on=made),
        )
        self.worker_name = scaler.urn.apply(lambda _: args["worker_name"])
        self.register_outputs({"workerName": self.worker_name})


def document(args: StreamWorkerArgs, given: Mapping[str, str]) -> str:
    """Returns the settings of the workers (workloads/stream/settings.py) as JSON."""
    if args.get("brokers"):
        source: dict[str, Any] = {
            "kind": "kafka",
            "brokers": list(args.get("brokers", [])),
            "group": args.get("group", ""),
            "topic": args.get("source_topic", ""),
        }
        if args.get("kafka_secret"):
            source["settings_folder"] = _KAFKA_FOLDER
    else:
        source = {"kind": "pubsub", "subscription": given["subscription"]}
    results = dict(args["results"])
    if results["kind"] == "topic" and given["topic"]:
        results["topic"] = given["topic"]
    found: dict[str, Any] = {
        "attempts": int(args.get("attempts", 5)),
        "dead_letters": given["dead_letters"],
        "deadline_seconds": int(args.get("deadline_seconds", 600)),
        "endpoint": given["endpoint"],
        "model": args["model"],
        "most_in_flight": int(args.get("requests_per_worker", 16)),
        "names": list(args["names"]),
        "objective": args.get("objective", ""),
        "ordered": bool(args.get("ordered", False)),
        "port": PORT,
        "results": results,
        "source": source,
        "stream": args["stream_name"],
    }
    if args.get("key_secret"):
        found["key_file"] = f"{_KEY_FOLDER}/key"
    if picker := args.get("picker"):
        found["metrics_of_picker"] = f"http://{picker}/metrics"
    return json.dumps(found, indent=1, sort_keys=True)


def worker_objects(args: StreamWorkerArgs, content: Any) -> dict[str, Manifest]:
    """Returns the objects of the workers by role, in the order to create them.

    Args:
        args: Of the component.
        content: The settings, a text or what becomes one.
    """
    name, namespace = args["worker_name"], args["namespace"]
    labels = labels_for(name, COMPONENT)
    workers = deployment(name, namespace, COMPONENT, _pod(args), 1, files=_restarts(args))
    del workers["spec"]["replicas"]  # the autoscaler's alone
    found = {
        "settings": manifest("config_map", name, namespace, labels=labels, data={FILE: content}),
        "deployment": workers,
        "budget": disruption_budget(name, namespace, COMPONENT),
        "monitoring": manifest(
            "pod_monitoring",
            name,
            namespace,
            labels=labels,
            spec={
                "endpoints": [{"interval": "15s", "path": "/metrics", "port": "metrics"}],
                "selector": {"matchLabels": labels},
            },
        ),
    }
    if args.get("network_policy", True):
        collectors = args.get("metrics_namespace", "gmp-system")
        peer = {"matchLabels": {"kubernetes.io/metadata.name": collectors}}
        found["policy"] = manifest(
            "network_policy",
            name,
            namespace,
            labels=labels,
            spec={
                "ingress": [
                    {
                        "from": [{"namespaceSelector": peer}],
                        "ports": [{"port": PORT, "protocol": "TCP"}],
                    }
                ],
                "podSelector": {"matchLabels": {NAME_LABEL: name}},
                "policyTypes": ["Ingress"],
            },
        )
    return found


def autoscaler(args: StreamWorkerArgs, subscription: pulumi.Input[str]) -> Manifest:
    """Returns the HorizontalPodAutoscaler: so many messages a worker, of Pub/Sub or of Kafka."""
    kind = api("deployment")
    return manifest(
        "autoscaler",
        args["worker_name"],
        args["namespace"],
        labels=labels_for(args["worker_name"], COMPONENT),
        spec={
            "behavior": {
                "scaleDown": {
                    "policies": [{"periodSeconds": 15, "type": "Percent", "value": 100}],
                    "stabilizationWindowSeconds": int(args.get("scale_in_delay_seconds", 300)),
                },
                "scaleUp": {
                    "policies": [{"periodSeconds": 30, "type": "Percent", "value": 100}],
                    "stabilizationWindowSeconds": 0,
                },
            },
            "maxReplicas": int(args.get("max_workers", 8)),
            "metrics": [
                {
                    "external": {
                        "metric": _metric(args, subscription),
                        "target": {
                            "averageValue": str(int(args.get("backlog_per_worker", 100))),
                            "type": "AverageValue",
                        },
                    },
                    "type": "External",
                }
            ],
            "minReplicas": int(args.get("min_workers", 0)),
            "scaleTargetRef": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": args["worker_name"],
            },
        },
    )


def _metric(args: StreamWorkerArgs, subscription: pulumi.Input[str]) -> Manifest:
    if args.get("brokers"):
        labels: dict[str, Any] = {
            "metric.labels.stream": args["stream_name"],
            "resource.labels.cluster": args.get("cluster_name", ""),
            "resource.labels.namespace": args["namespace"],
        }
        return {"name": cloud_monitoring_name(_LAG), "selector": {"matchLabels": labels}}
    short = pulumi.Output.from_input(subscription).apply(lambda path: path.rpartition("/")[2])
    selector: dict[str, Any] = {"matchLabels": {"resource.labels.subscription_id": short}}
    return {"name": BACKLOG, "selector": selector}


def _restarts(args: StreamWorkerArgs) -> dict[str, Any]:
    """Returns what of the arguments is plain: workers restart when it changes."""
    return {key: value for key, value in args.items() if not isinstance(value, pulumi.Output)}


def _pod(args: StreamWorkerArgs) -> Manifest:
    probe = {"path": "/healthz", "port": "metrics"}
    folders = {
        "settings": (_FOLDER, {"configMap": {"name": args["worker_name"]}}),
        "key": (_KEY_FOLDER, {"secret": {"secretName": args.get("key_secret")}}),
        "kafka": (_KAFKA_FOLDER, {"secret": {"secretName": args.get("kafka_secret")}}),
    }
    wanted = ["settings"]
    wanted += ["key"] if args.get("key_secret") else []
    wanted += ["kafka"] if args.get("kafka_secret") else []
    deadline = int(args.get("deadline_seconds", 600))
    return {
        "containers": [
            {
                "args": [f"{_FOLDER}/{FILE}"],
                "env": [
                    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
                ],
                "image": image("stream").reference,
                "livenessProbe": {"periodSeconds": 10, "tcpSocket": {"port": "metrics"}},
                "name": "stream",
                "ports": [{"containerPort": PORT, "name": "metrics"}],
                "readinessProbe": {"httpGet": probe, "periodSeconds": 5},
                "resources": {
                    "limits": {"memory": "512Mi"},
                    "requests": {"cpu": "100m", "memory": "256Mi"},
                },
                "startupProbe": {
                    "failureThreshold": 60,
                    "periodSeconds": 2,
                    "tcpSocket": {"port": "metrics"},
                },
                "securityContext": HARDENED_CONTAINER,
                "volumeMounts": [
                    {"mountPath": folders[name][0], "name": name, "readOnly": True}
                    for name in wanted
                ],
            }
        ],
        "securityContext": hardened_pod(_USER),
        "serviceAccountName": args["service_account"],
        "terminationGracePeriodSeconds": deadline + _END_SECONDS,
        "topologySpreadConstraints": spread(args["worker_name"])[1:],
        "volumes": [{"name": name, **folders[name][1]} for name in wanted],
    }


def _check(args: StreamWorkerArgs) -> None:
    lowest = whole(args, "min_workers", 0, least=0, most=1000)
    whole(args, "max_workers", 8, least=max(lowest, 1), most=1000)
    whole(args, "attempts", 5, least=1, most=20)
    whole(args, "backlog_per_worker", 100, least=1, most=1_000_000)
    whole(args, "deadline_seconds", 600, least=10, most=3600)
    whole(args, "requests_per_worker", 16, least=1, most=200)
    whole(args, "scale_in_delay_seconds", 300, least=0, most=3600)
    one_of(args["results"], "kind", _RESULTS)
    if not args.get("brokers"):
        if not args.get("subscription"):
            raise pulumi.InputPropertyError("subscription", "must be set without brokers, got none")
        return
    for field in ("cluster_name", "group", "source_topic"):
        if not args.get(field):
            camel = {"cluster_name": "clusterName", "source_topic": "sourceTopic"}.get(field, field)
            raise pulumi.InputPropertyError(camel, "must be set with brokers, got none")
    if lowest == 0:
        raise pulumi.InputPropertyError(
            "minWorkers", "must be 1 or more with brokers: the workers report the backlog, got 0"
        )
