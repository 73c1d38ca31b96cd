"""The workers of a stream: a Deployment that scales with the backlog, to zero if supported."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    NAME_LABEL,
    Manifest,
    deployment,
    disruption_budget,
    fixed_size,
    hardened_pod,
    labels_for,
    manifest,
    register,
    scraping,
    spread,
)
from gke_inference.catalogue.engine_metrics import cloud_monitoring_name
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.managed_prometheus import STANDARD_NAMESPACE
from gke_inference.catalogue.typed_inputs import document_of
from gke_inference.catalogue.versions import api, image
from gke_inference.settings.fields import (
    DEADLINE_SECONDS,
    WORKER_REQUESTS,
    DeadlineSeconds,
    WorkerRequests,
)

from .rules import check_workers
from .settings import (
    ATTEMPTS,
    BACKLOG_PER_WORKER,
    MAX_WORKERS,
    MIN_WORKERS,
    SCALE_IN_DELAY_SECONDS,
    Attempts,
    BacklogPerWorker,
    MaxWorkers,
    MinWorkers,
    ResultsKind,
    ResultsSettings,
    ScaleInDelaySeconds,
)

COMPONENT = "stream-worker"
"""Value of `app.kubernetes.io/component` on its objects."""
PORT = 9090
FILE = "settings.json"
BACKLOG = "pubsub.googleapis.com|subscription|num_undelivered_messages"
"""Metric of a subscription's backlog, as Google's metrics adapter names it."""
_LAG = "gke_inference_stream_backlog"
"""Series of a Kafka backlog, exported by the workers."""
_FOLDER = "/etc/stream"
_KEY_FOLDER = "/etc/stream-key"
_KAFKA_FOLDER = "/etc/stream-kafka"
_USER = 1000
_END_SECONDS = 30
"""Time in addition to a message's deadline for a terminating worker."""


class StreamWorkerArgs(TypedDict):
    """Inputs of `StreamWorker`."""

    dead_letters: pulumi.Input[str]
    """Dead letter topic."""
    endpoint: pulumi.Input[str]
    """URL of the gateway in front of the model."""
    model: str
    """Model for messages that name none."""
    names: list[str]
    """Models and adapters that messages may name."""
    namespace: str
    """Namespace of the workers."""
    results: ResultsSettings
    """Destination of answers. For a Pub/Sub topic, set `results_topic`."""
    service_account: str
    """Kubernetes service account of the workers."""
    stream_name: str
    """Name of the stream."""
    worker_name: str
    """Name of the workers' objects."""
    attempts: NotRequired[Attempts]
    """Attempts at a message that the model may be able to answer. Default: 5."""
    backlog_per_worker: NotRequired[BacklogPerWorker]
    """Waiting messages per worker. Default: 100."""
    brokers: NotRequired[list[str]]
    """Kafka brokers, each as `HOST:PORT`. Default: none, the source is `subscription`."""
    cluster_name: NotRequired[str]
    """Cluster of the workers. Required with `brokers`, since the workers export the backlog."""
    deadline_seconds: NotRequired[DeadlineSeconds]
    """Maximum processing time of a message, in seconds. Default: 600."""
    group: NotRequired[str]
    """Consumer group, with `brokers`."""
    kafka_secret: NotRequired[str]
    """Kubernetes Secret whose keys are librdkafka settings, such as `sasl.password`."""
    key_secret: NotRequired[str]
    """Kubernetes Secret with the key of a client team in `key`, if the gateway requires one."""
    max_workers: NotRequired[MaxWorkers]
    """Maximum number of workers. Default: 8."""
    metrics_namespace: NotRequired[str]
    """Namespace of the Managed Prometheus collectors. Default: `gmp-system`."""
    min_workers: NotRequired[MinWorkers]
    """Minimum number of workers. 0 requires a cluster that supports scaling to zero, and is not
    allowed with `brokers`. Default: 0."""
    network_policy: NotRequired[bool]
    """Whether only metrics collectors may reach the workers. Default: true."""
    objective: NotRequired[str]
    """InferenceObjective of the requests. Default: none."""
    ordered: NotRequired[bool]
    """Whether messages with the same key are answered in order. Default: false."""
    picker: NotRequired[str]
    """`HOST:PORT` of the pool's picker metrics. Default: none, the queue is not considered."""
    requests_per_worker: NotRequired[WorkerRequests]
    """Maximum concurrent requests per worker. Default: 16."""
    results_topic: NotRequired[pulumi.Input[str]]
    """Topic for answers, if they are messages."""
    scale_in_delay_seconds: NotRequired[ScaleInDelaySeconds]
    """How long the backlog must stay low before workers are removed, in seconds. Default: 300,
    since new messages are seen up to three minutes late."""
    source_topic: NotRequired[str]
    """Kafka topic, with `brokers`."""
    subscription: NotRequired[pulumi.Input[str]]
    """Subscription to read, `projects/P/subscriptions/S`."""
    team: NotRequired[str]
    """Client team that the messages act for; the key's team must have `acts_for_teams`. Default:
    the team of the key."""


class StreamWorker(pulumi.ComponentResource):
    """Workers that send messages to the model, yield to other requests, and store the answers.

    A message is answered at least once, and its answer is stored once, by message ID. Pass the
    cluster's Kubernetes provider in `opts`.
    """

    worker_name: pulumi.Output[str]
    """Name of the Deployment and its autoscaler."""

    def __init__(
        self, name: str, args: StreamWorkerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:StreamWorker", name, {}, opts)
        args = checked(StreamWorkerArgs, args)
        name_of(args, "worker_name", "namespace")
        name_of(args, "namespace", "namespace")
        keep(_problems(args))
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
    """Return the settings of the workers (workloads/stream/settings.py) as JSON."""
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
    kind = args["results"].kind
    results: dict[str, Any] = {"kind": kind.value, **document_of(args["results"])}
    if kind is ResultsKind.TOPIC and given["topic"]:
        results["topic"] = given["topic"]
    found: dict[str, Any] = {
        "attempts": args.get("attempts", ATTEMPTS),
        "dead_letters": given["dead_letters"],
        "deadline_seconds": args.get("deadline_seconds", DEADLINE_SECONDS),
        "endpoint": given["endpoint"],
        "model": args["model"],
        "max_in_flight": args.get("requests_per_worker", WORKER_REQUESTS),
        "names": args["names"],
        "objective": args.get("objective", ""),
        "ordered": args.get("ordered", False),
        "port": PORT,
        "results": results,
        "source": source,
        "stream": args["stream_name"],
    }
    if args.get("key_secret"):
        found["key_file"] = f"{_KEY_FOLDER}/key"
    if args.get("team"):
        found["team"] = args.get("team")
    if picker := args.get("picker"):
        found["metrics_of_picker"] = f"http://{picker}/metrics"
    return json.dumps(found, indent=1, sort_keys=True)


def worker_objects(args: StreamWorkerArgs, content: Any) -> dict[str, Manifest]:
    """Return the objects of the workers by role, in creation order.

    Args:
        args: Arguments of the component.
        content: Settings, as a text or an output of one.
    """
    name, namespace = args["worker_name"], args["namespace"]
    labels = labels_for(name, COMPONENT)
    workers = deployment(name, namespace, COMPONENT, _pod(args), 1, files=_restarts(args))
    del workers["spec"]["replicas"]  # managed by the autoscaler
    found = {
        "settings": manifest("config_map", name, namespace, labels=labels, data={FILE: content}),
        "deployment": workers,
        "budget": disruption_budget(name, namespace, COMPONENT),
        "monitoring": scraping(name, namespace, COMPONENT),
    }
    if args.get("network_policy", True):
        collectors = args.get("metrics_namespace", STANDARD_NAMESPACE)
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
    """Return the HorizontalPodAutoscaler: messages per worker, from Pub/Sub or Kafka."""
    kind = api("deployment")
    least, most = args.get("min_workers", MIN_WORKERS), args.get("max_workers", MAX_WORKERS)
    return manifest(
        "autoscaler",
        args["worker_name"],
        args["namespace"],
        labels=labels_for(args["worker_name"], COMPONENT),
        annotations=fixed_size(least, most),
        spec={
            "behavior": {
                "scaleDown": {
                    "policies": [{"periodSeconds": 15, "type": "Percent", "value": 100}],
                    "stabilizationWindowSeconds": args.get(
                        "scale_in_delay_seconds", SCALE_IN_DELAY_SECONDS
                    ),
                },
                "scaleUp": {
                    "policies": [
                        {"periodSeconds": 30, "type": "Percent", "value": 100},
                        # a percentage of no worker is none: without this, zero is forever
                        {"periodSeconds": 30, "type": "Pods", "value": 1},
                    ],
                    "selectPolicy": "Max",
                    "stabilizationWindowSeconds": 0,
                },
            },
            "maxReplicas": most,
            "metrics": [
                {
                    "external": {
                        "metric": _metric(args, subscription),
                        "target": {
                            "averageValue": str(args.get("backlog_per_worker", BACKLOG_PER_WORKER)),
                            "type": "AverageValue",
                        },
                    },
                    "type": "External",
                }
            ],
            "minReplicas": least,
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
    """Return the plain values of the arguments. Workers restart when they change."""
    plain = {key: value for key, value in args.items() if not isinstance(value, pulumi.Output)}
    return document_of(plain)


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
    deadline = args.get("deadline_seconds", DEADLINE_SECONDS)
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


def _problems(args: StreamWorkerArgs) -> Iterator[InputError]:
    least, most = args.get("min_workers", MIN_WORKERS), args.get("max_workers", MAX_WORKERS)
    is_kafka = bool(args.get("brokers"))
    yield from check_workers("min_workers", least, most, is_kafka=is_kafka)
    if not is_kafka and not args.get("subscription"):
        yield InputError("subscription", "must be set without brokers", Bare("none"))
    for field in ("cluster_name", "group", "source_topic"):
        if is_kafka and not args.get(field):
            yield InputError(field, "must be set with brokers", Bare("none"))
