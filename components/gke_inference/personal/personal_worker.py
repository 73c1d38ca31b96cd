"""The worker of personalized images, in the namespace of the team whose queue trains."""

import json
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    SKIP_AWAIT,
    Manifest,
    deployment,
    disruption_budget,
    labels_for,
    manifest,
    register,
    role_binding,
    service_account,
)
from gke_inference.catalogue.versions import api, image

from .rules import check_training
from .settings import (
    RETENTION_DAYS,
    TRAIN_SECONDS,
    WORKER_SETS,
    RetentionDays,
    TrainSeconds,
    WorkerSets,
)

COMPONENT = "personal-worker"
"""Value of `app.kubernetes.io/component` on its objects."""
_FILE = "settings.json"
_FOLDER = "/etc/personal"
_KEY_FOLDER = "/etc/personal-key"
_SECRET_FOLDER = "/etc/personal-secret"  # noqa: S105 - a path
_SHARED = "/mnt/shared"
_PORT = 9090
_REPLICAS = 2
_QUEUE = "kueue.x-k8s.io/queue-name"
_CHIP = "google.com/tpu"
_AS_ROOT: Manifest = {  # root owns the root folder of a share
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsUser": 0,
    "seccompProfile": {"type": "RuntimeDefault"},
}


class PersonalWorkerArgs(TypedDict):
    """Inputs of `PersonalWorker`."""

    adapters: str
    """Folder of the model's live adapters in the shared folder."""
    bucket: pulumi.Input[str]
    """Bucket for all data of users: `PersonalFront.bucket_name`."""
    callback_secret: str
    """Kubernetes Secret with the secret that signs callbacks in `secret`."""
    endpoint: pulumi.Input[str]
    """URL of the gateway in front of the model."""
    model: str
    """Model whose adapters are trained."""
    models_bucket: pulumi.Input[str]
    """Bucket of the model's weights."""
    namespace: str
    """Namespace of a team with a queue, and with the claim `shared-folder`."""
    queue: str
    """Queue of the training jobs."""
    service_account: str
    """Kubernetes service account of the worker."""
    erasures_subscription: pulumi.Input[str]
    """Subscription of deletions: `PersonalFront.erasures_subscription`."""
    subscription: pulumi.Input[str]
    """Subscription of sets: `PersonalFront.subscription`."""
    trainer_account: str
    """Kubernetes service account of the training jobs, which reads both buckets."""
    trainer_image: str
    """Image of the training jobs. The jobs are text in a ConfigMap, so nothing else replaces it."""
    training: dict[str, str]
    """Settings that all training runs share, each as JSON: `folder` below the models' bucket,
    `prompt`, `rank`, `size`, `steps`, `text_encoder_bits`, `text_tokens`."""
    worker_name: str
    """Name of the worker's objects."""
    key_secret: NotRequired[str]
    """Kubernetes Secret with the key of a client team in `key`, if the gateway requires one."""
    retention_days: NotRequired[RetentionDays]
    """Days after which adapters are deleted from the shared folder:
    `PersonalFrontArgs.retention_days`. Default: 30."""
    sets_per_worker: NotRequired[WorkerSets]
    """Sets that a worker has in progress. Default: 16."""
    train_seconds: NotRequired[TrainSeconds]
    """Maximum time from the creation of a training job to its end, including its time in the
    queue, in seconds. Default: 14400."""


class PersonalWorker(pulumi.ComponentResource):
    """Workers that take a set of photos through training, generation and archive to the callback.

    They create the training jobs of their namespace and delete users' data. All state is in the
    bucket. Pass the cluster's Kubernetes provider in `opts`.
    """

    worker_name: pulumi.Output[str]
    """Name of the Deployment."""

    def __init__(
        self, name: str, args: PersonalWorkerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:PersonalWorker", name, {}, opts)
        args = checked(PersonalWorkerArgs, args)
        seconds = args.get("train_seconds", TRAIN_SECONDS)
        days = args.get("retention_days", RETENTION_DAYS)
        keep(check_training("train_seconds", seconds, days))
        worker = name_of(args, "worker_name", "namespace")
        name_of(args, "namespace", "namespace")
        given = {
            "bucket": args["bucket"],
            "endpoint": args["endpoint"],
            "erasures_subscription": args["erasures_subscription"],
            "models_bucket": args["models_bucket"],
            "subscription": args["subscription"],
        }
        content = pulumi.Output.all(**given).apply(lambda found: document(args, found))
        made: list[pulumi.Resource] = []
        for role, obj in _objects(args, content).items():
            logical = name if role == "deployment" else f"{name}-{role}"
            made.append(register(logical, obj, under(self, depends_on=list(made))))
        self.worker_name = made[-1].urn.apply(lambda _: worker)
        self.register_outputs({"workerName": self.worker_name})


def document(args: PersonalWorkerArgs, given: Mapping[str, str]) -> str:
    """Return the settings of the worker (workloads/personal/settings.py) as JSON."""
    training = {key: json.loads(value) for key, value in args["training"].items()}
    training["folder"] = f"/mnt/models/{training['folder']}"
    found: dict[str, Any] = {
        "adapters": args["adapters"],
        "bucket": given["bucket"],
        "config_map": manifest("config_map", "", args["namespace"]),
        "endpoint": given["endpoint"],
        "erasures_subscription": given["erasures_subscription"],
        "job": training_job(args, given),
        "model": args["model"],
        "port": _PORT,
        "secret_file": f"{_SECRET_FOLDER}/secret",
        "retention_days": args.get("retention_days", RETENTION_DAYS),
        "sets": args.get("sets_per_worker", WORKER_SETS),
        "shared": _SHARED,
        "subscription": given["subscription"],
        "train_seconds": args.get("train_seconds", TRAIN_SECONDS),
        "training": training,
    }
    if args.get("key_secret"):
        found["key_file"] = f"{_KEY_FOLDER}/key"
    return json.dumps(found, indent=1, sort_keys=True)


def training_job(args: PersonalWorkerArgs, given: Mapping[str, str]) -> Manifest:
    """Return the Job of a training run, to which the worker gives a name.

    A preempted spot machine is no failure, nor is exit code 143: the run was terminated and has
    written its checkpoint.
    """

    def bucket(volume: str, named: str) -> Manifest:
        attributes = {"bucketName": named, "mountOptions": "implicit-dirs"}
        driver = "gcsfuse.csi.storage.gke.io"
        csi = {"driver": driver, "readOnly": True, "volumeAttributes": attributes}
        return {"csi": csi, "name": volume}

    container = {
        "command": ["python3", "-m", "diffusion", "train", "--config", "/etc/train/train.json"],
        "env": [{"name": "HF_HUB_OFFLINE", "value": "1"}],
        "image": args["trainer_image"],
        "name": "train",
        "resources": {"limits": {_CHIP: "1"}, "requests": {"cpu": "8", "memory": "64Gi"}},
        "securityContext": _AS_ROOT,
        "volumeMounts": [
            {"mountPath": "/etc/train", "name": "settings", "readOnly": True},
            {"mountPath": "/mnt/models", "name": "models", "readOnly": True},
            {"mountPath": "/mnt/images", "name": "images", "readOnly": True},
            {"mountPath": _SHARED, "name": "shared"},
        ],
    }
    exit_codes = {"containerName": "train", "operator": "In", "values": [143]}
    disrupted = {"status": "True", "type": "DisruptionTarget"}
    pod = {
        "containers": [container],
        "restartPolicy": "Never",
        "serviceAccountName": args["trainer_account"],
        "terminationGracePeriodSeconds": 25,
        "volumes": [
            {"configMap": {"name": ""}, "name": "settings"},
            bucket("models", given["models_bucket"]),
            bucket("images", given["bucket"]),
            {"name": "shared", "persistentVolumeClaim": {"claimName": "shared-folder"}},
        ],
    }
    spec = {
        "backoffLimit": 3,
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [disrupted]},
                {"action": "Ignore", "onExitCodes": exit_codes},
            ]
        },
        "template": {"metadata": {"annotations": {"gke-gcsfuse/volumes": "true"}}, "spec": pod},
        "ttlSecondsAfterFinished": 86_400,
    }
    return manifest("job", "", args["namespace"], labels={_QUEUE: args["queue"]}, spec=spec)


def _objects(args: PersonalWorkerArgs, content: Any) -> dict[str, Manifest]:
    """Return the objects by role, in creation order."""
    name, namespace = args["worker_name"], args["namespace"]
    labels = labels_for(name, COMPONENT)
    plain = {key: value for key, value in args.items() if not isinstance(value, pulumi.Output)}
    rules = [
        {
            "apiGroups": [api("job").group],
            "resources": ["jobs"],
            "verbs": ["create", "delete", "get", "list"],
        },
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "delete", "list"]},
    ]
    subjects = [service_account(args["service_account"], namespace)]
    return {
        "role": manifest("role", name, namespace, labels=labels, rules=rules),
        "binding": role_binding(name, name, subjects, namespace, labels=labels),
        "settings": manifest("config_map", name, namespace, labels=labels, data={_FILE: content}),
        "deployment": deployment(
            name, namespace, COMPONENT, _pod(args), _REPLICAS, annotations=SKIP_AWAIT, files=plain
        ),
        "budget": disruption_budget(name, namespace, COMPONENT),
    }


def _pod(args: PersonalWorkerArgs) -> Manifest:
    mounts = [
        {"mountPath": _FOLDER, "name": "settings", "readOnly": True},
        {"mountPath": _SECRET_FOLDER, "name": "secret", "readOnly": True},
        {"mountPath": _SHARED, "name": "shared"},
    ]
    volumes: list[Manifest] = [
        {"configMap": {"name": args["worker_name"]}, "name": "settings"},
        {"name": "secret", "secret": {"secretName": args["callback_secret"]}},
        {"name": "shared", "persistentVolumeClaim": {"claimName": "shared-folder"}},
    ]
    if secret := args.get("key_secret"):
        mounts.append({"mountPath": _KEY_FOLDER, "name": "key", "readOnly": True})
        volumes.append({"name": "key", "secret": {"secretName": secret}})
    container = {
        "args": ["work", f"{_FOLDER}/{_FILE}"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "image": image("personal").reference,
        "name": "personal",
        "ports": [{"containerPort": _PORT, "name": "health"}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "health"}, "periodSeconds": 5},
        "resources": {
            "limits": {"memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "256Mi"},
        },
        "securityContext": {**HARDENED_CONTAINER, **_AS_ROOT},
        "volumeMounts": mounts,
    }
    return {
        "automountServiceAccountToken": True,  # it creates jobs
        "containers": [container],
        "serviceAccountName": args["service_account"],
        "terminationGracePeriodSeconds": 60,
        "volumes": volumes,
    }
