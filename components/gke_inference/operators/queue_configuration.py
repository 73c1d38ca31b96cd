"""The configuration file of Kueue."""

import json
from typing import Final

from .manager import CERTIFICATE_FOLDER, HEALTH_PORT, WEBHOOK_PORT
from .queue_webhooks import QUEUED_NAMESPACE

CERTIFICATE: Final = "kueue-webhook-server-cert"


def configuration(
    api_version: str,
    kind: str,
    *,
    namespace: str,
    service: str,
    job_sets: bool = False,
    metrics_port: int | None = None,
) -> str:
    """Return the file's content as JSON, which is valid YAML.

    Args:
        api_version: API version of the file.
        kind: Kind of the file.
        namespace: Namespace of Kueue.
        service: Name of the Service of its webhooks.
        job_sets: Whether sets of jobs (`JobSet`) queue as well.
        metrics_port: Port of its metrics, or None for no metrics.
    """
    found = {
        "apiVersion": api_version,
        "kind": kind,
        "namespace": namespace,
        # Jobs across clusters and the visibility API are not used.
        "featureGates": {"MultiKueue": False, "VisibilityOnDemand": False},
        "health": {"healthProbeBindAddress": f":{HEALTH_PORT}"},
        "integrations": {
            "frameworks": ["batch/job", *(["jobset.x-k8s.io/jobset"] if job_sets else [])]
        },
        "internalCertManagement": {
            "enable": True,
            "webhookSecretName": CERTIFICATE,
            "webhookServiceName": service,
        },
        "leaderElection": {"leaderElect": True, "resourceNamespace": namespace},
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": {"matchLabels": QUEUED_NAMESPACE},
        "metrics": {
            "bindAddress": "0" if metrics_port is None else f":{metrics_port}",
            "enableClusterQueueResources": metrics_port is not None,
        },
        # Queues share chips; all other resources of a pod come with its node.
        "resources": {"excludeResourcePrefixes": ["cpu", "memory", "ephemeral-storage"]},
        "webhook": {"certDir": CERTIFICATE_FOLDER, "port": WEBHOOK_PORT},
    }
    return json.dumps(found, indent=2, sort_keys=True) + "\n"
