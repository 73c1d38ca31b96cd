"""The objects of a guard in the cluster: NeMo Guardrails, which the callout calls.

The program is workloads/guardrails. Its rails are files of a ConfigMap, or those in the image.
"""

from gke_inference.base.manifests import (
    HARDENED_CONTAINER,
    Manifest,
    available,
    deployment,
    disruption_budget,
    hardened_pod,
    labels_for,
    manifest,
    scraping,
    service,
)
from gke_inference.catalogue.versions import image

COMPONENT = "guardrails"
"""Value of `app.kubernetes.io/component` on its objects."""
PORT = 9020
_FOLDER = "/etc/guardrails"
_USER = 1000
_PROBE: Manifest = {"httpGet": {"path": "/health", "port": "http"}}


def nemo_objects(
    name: str, namespace: str, replicas: int, files: dict[str, str]
) -> dict[str, Manifest]:
    """Return the guard's objects by role, in the order to create them.

    Args:
        name: Name of every object.
        namespace: Namespace, which must be that of the callout.
        replicas: Number of replicas, which never share a node.
        files: NeMo Guardrails rails by file name, or none for those in the image.
    """
    labels = labels_for(name, COMPONENT)
    port: Manifest = {"name": "http", "port": PORT, "targetPort": "http"}
    pod = available(name, _pod(name, bool(files)))
    settings = manifest("config_map", name, namespace, labels=labels, data=files)
    account = manifest(
        "service_account", name, namespace, labels=labels, automountServiceAccountToken=False
    )
    return {
        "account": account,
        **({"rails": settings} if files else {}),
        "deployment": deployment(name, namespace, COMPONENT, pod, replicas, files=files or None),
        "budget": disruption_budget(name, namespace, COMPONENT),
        "service": service(name, namespace, COMPONENT, [port]),
        "monitoring": scraping(name, namespace, COMPONENT, port="http"),
    }


def _pod(name: str, has_files: bool) -> Manifest:
    container: Manifest = {
        "args": [f"--port={PORT}", *([f"--config={_FOLDER}"] if has_files else [])],
        "image": image("guardrails").reference,
        "livenessProbe": {**_PROBE, "periodSeconds": 20, "timeoutSeconds": 10},
        "name": "guardrails",
        "ports": [{"containerPort": PORT, "name": "http"}],
        "readinessProbe": {**_PROBE, "periodSeconds": 5, "timeoutSeconds": 5},
        "resources": {
            "limits": {"memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "512Mi"},
        },
        "securityContext": HARDENED_CONTAINER,
        "startupProbe": {**_PROBE, "failureThreshold": 30, "periodSeconds": 2},
    }
    spec: Manifest = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "securityContext": hardened_pod(_USER),
        "serviceAccountName": name,
        "volumes": [{"emptyDir": {"sizeLimit": "64Mi"}, "name": "tmp"}],
    }
    container["volumeMounts"] = [{"mountPath": "/tmp", "name": "tmp"}]  # noqa: S108 - of the pod
    if has_files:
        rails: Manifest = {"mountPath": _FOLDER, "name": "rails", "readOnly": True}
        container["volumeMounts"].append(rails)
        spec["volumes"].append({"configMap": {"name": name}, "name": "rails"})
    return spec
