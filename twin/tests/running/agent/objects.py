"""Nodes and pods for the agent's tests."""

from typing import Any

from gke_inference.catalogue.versions import images
from twin.host.paths import TwinPaths
from twin.wire.kube import Kube, KubeError
from twin.world.store import Record, Store

JsonObject = dict[str, Any]
_POOLS = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools"
PROBES = {
    "startupProbe": {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": 10,
        "failureThreshold": 60,
    },
    "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 5},
    "livenessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10},
}
SERVE = ["python3", "-m", "vllm.entrypoints.openai.api_server"]


def node(name: str, kind: str, chips: int) -> JsonObject:
    labels = {"kubernetes.io/hostname": name, "test/kind": kind}
    resources = {"cpu": "64", "memory": "400Gi", "pods": "110"}
    if kind == "tpu":
        labels |= {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
            "cloud.google.com/gke-tpu-topology": "2x2",
        }
        resources["google.com/tpu"] = str(chips)
    elif kind == "gpu":
        labels["cloud.google.com/gke-accelerator"] = "nvidia-l4"
        resources["nvidia.com/gpu"] = str(chips)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"capacity": resources, "allocatable": resources},
    }


def engine(
    args: list[str] | None = None, kind: str = "gpu", name: str = "vllm", **more: Any
) -> JsonObject:
    image = images()[f"vllm_{kind}"].reference.removeprefix("docker.io/")
    return {
        "name": name,
        "image": image,
        "command": SERVE,
        "args": args or ["--model=/models/llama-3.1-8b", "--max-model-len=4096"],
        "ports": [{"name": f"http{'' if name == 'vllm' else '-' + kind}", "containerPort": 8000}],
        **(PROBES if name == "vllm" else {}),
        **more,
    }


def pod(name: str, *containers: JsonObject, kind: str = "gpu", **spec: Any) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "engine"}},
        "spec": {
            "containers": list(containers),
            "nodeSelector": {"test/kind": kind},
            "terminationGracePeriodSeconds": 10,
            **spec,
        },
    }


def condition(obj: JsonObject, kind: str) -> str:
    """Return the status of a condition; empty if there is none."""
    found = {c["type"]: c["status"] for c in obj.get("status", {}).get("conditions", [])}
    return found.get(kind, "")


def remove(kube: Kube, path: str, grace_seconds: int | None = None) -> None:
    """Delete an object, or nothing where a test or the cluster has already deleted it."""
    options = None if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
    try:
        kube.delete(path, options)
    except KubeError as error:
        if error.status != 404:
            raise


def grant_bucket(paths: TwinPaths, namespace: str, bucket: str, project: str = "p") -> None:
    """Let all pods of a namespace in a project mount a bucket (rule cloud.fuse-access)."""
    grant = {
        "bucket": bucket,
        "member": f"principalSet:{_POOLS}/{project}.svc.id.goog/namespace/{namespace}",
        "role": "roles/storage.objectUser",
    }
    token = "gcp:storage/bucketIAMMember:BucketIAMMember"
    named = f"{bucket} {namespace}"
    record = Record(token, named, named, "", "urn", "ready", True, grant, {}, 0.0)
    Store(paths.cloud_db).add(record, [])
