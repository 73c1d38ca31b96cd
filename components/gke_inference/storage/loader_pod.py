"""The pod that transfers weights inside a cluster, as pure builders of its objects."""

import json
from collections.abc import Mapping
from typing import Any

from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    Manifest,
    fingerprint,
    hardened_pod,
    labels_for,
    manifest,
)

CODE = "/opt/gke-inference"
WORK = "/work"
DISK = "/mnt/weights"
"""Mount path of the disk to fill. Weights are written to its root."""

_COMPONENT = "weights"
_USER = 1000
_CLASS_KEY = "cloud.google.com/compute-class"
# Hyperdisk ML attaches to few families (docs.cloud.google.com/compute/docs/disks/hyperdisks);
# C3 has the network for a bucket's throughput as well.
_FAMILIES = ("c3", "c3d")
_CPUS = "8"
_MEMORY = "16Gi"
_INSTALL = (
    f"python3 -m pip install --quiet --no-cache-dir --disable-pip-version-check --no-deps"
    f" --only-binary :all: --require-hashes --target {WORK}/packages"
    f" --requirement {CODE}/requirements.lock && "
)
_RUN = f"exec python3 -m workloads.transfer {CODE}/spec.json"
_LOCK = "requirements.lock"


def class_object(name: str, zone: str | None, node_service_account: Any) -> Manifest:
    """Return the compute class of the job's node, which is removed when the job has ended."""
    rule: Manifest = {"minCores": int(_CPUS)}
    if zone is not None:
        rule["location"] = {"zones": [zone]}
    config: Manifest = {"imageStreaming": {"enabled": True}}
    if node_service_account is not None:
        config["serviceAccount"] = node_service_account
    return manifest(
        "compute_class",
        name,
        labels=labels_for(name, _COMPONENT),
        spec={
            "nodePoolAutoCreation": {"enabled": True},
            "nodePoolConfig": config,
            "priorities": [{"machineFamily": family, **rule} for family in _FAMILIES],
            "whenUnsatisfiable": "DoNotScaleUp",
        },
    )


def files_object(
    name: str, namespace: str, program: Mapping[str, str], spec: Mapping[str, Any]
) -> Manifest:
    """Return the ConfigMap with the program and its input. It contains no secrets."""
    files = {_key(path): text for path, text in sorted(program.items())}
    files["spec.json"] = json.dumps(spec, indent=1, sort_keys=True) + "\n"
    return manifest("config_map", name, namespace, labels=labels_for(name, _COMPONENT), data=files)


def job_object(
    name: str,
    namespace: str,
    *,
    image: str,
    program: Mapping[str, str],
    spec: Mapping[str, Any],
    scratch_gib: int,
    deadline_seconds: int,
    claim: str | None,
) -> Manifest:
    """Return the job. It can restart six times, and continues where it stopped.

    Args:
        name: Name of the job, its files, its service account and its compute class.
        namespace: Namespace of all but the class.
        image: Python, or an image that has the program.
        program: Files of the program by path; none if the image has it.
        spec: Input of the program.
        scratch_gib: Size of the volume it works in.
        deadline_seconds: Maximum total run time.
        claim: Claim of the disk to fill.
    """
    labels = labels_for(name, _COMPONENT)
    pod: Manifest = {
        "automountServiceAccountToken": False,
        "containers": [_container(image, program, claim)],
        "nodeSelector": {_CLASS_KEY: name},
        "restartPolicy": "Never",
        "securityContext": hardened_pod(_USER),
        "serviceAccountName": name,
        "tolerations": [
            {"effect": "NoSchedule", "key": _CLASS_KEY, "operator": "Equal", "value": name}
        ],
        "volumes": _volumes(name, program, scratch_gib, claim),
    }
    metadata: Manifest = {
        "annotations": {"gke-inference/config": fingerprint([dict(program), dict(spec)])},
        "labels": labels,
    }
    return manifest(
        "job",
        name,
        namespace,
        # a job's template never changes: another push replaces the job
        annotations={"pulumi.com/replaceUnready": "true"},
        labels=labels,
        spec={
            "activeDeadlineSeconds": deadline_seconds,
            "backoffLimit": 6,
            "template": {"metadata": metadata, "spec": pod},
        },
    )


def _container(image: str, program: Mapping[str, str], claim: str | None) -> Manifest:
    install = _INSTALL if _LOCK in program else ""
    mounts: list[Manifest] = [
        {"mountPath": CODE, "name": "program", "readOnly": True},
        {"mountPath": WORK, "name": "work"},
    ]
    if claim is not None:
        mounts.append({"mountPath": DISK, "name": "weights"})
    environment = {
        "HF_HOME": f"{WORK}/huggingface",
        "HOME": WORK,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"{WORK}/packages:{CODE}",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": WORK,
    }
    resources = {"cpu": _CPUS, "memory": _MEMORY}
    return {
        "command": ["sh", "-c", install + _RUN],
        "env": [{"name": key, "value": value} for key, value in sorted(environment.items())],
        "image": image,
        "name": "loader",
        "resources": {"limits": {"memory": _MEMORY}, "requests": resources},
        "securityContext": HARDENED_CONTAINER,
        "volumeMounts": mounts,
    }


def _volumes(
    name: str, program: Mapping[str, str], scratch_gib: int, claim: str | None
) -> list[Manifest]:
    items = [{"key": _key(path), "path": path} for path in sorted(program)]
    items.append({"key": "spec.json", "path": "spec.json"})
    scratch = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": f"{scratch_gib}Gi"}},
        "storageClassName": "premium-rwo",
    }
    volumes: list[Manifest] = [
        {"configMap": {"items": items, "name": name}, "name": "program"},
        {"ephemeral": {"volumeClaimTemplate": {"spec": scratch}}, "name": "work"},
    ]
    if claim is not None:
        volumes.append({"name": "weights", "persistentVolumeClaim": {"claimName": claim}})
    return volumes


def _key(path: str) -> str:
    """Return the key of a file in the ConfigMap, which does not support folders."""
    return path.replace("/", ".")
