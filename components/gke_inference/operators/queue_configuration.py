"""The configuration file of Kueue, as it is used here."""

import json
from typing import Final

from .queue_webhooks import QUEUED_NAMESPACE

CERTIFICATE: Final = "kueue-webhook-server-cert"
CERTIFICATE_FOLDER: Final = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - upstream's default
FILE: Final = "controller_manager_config.yaml"
HEALTH_PORT: Final = 8081


def configuration(api_version: str, kind: str, *, namespace: str, service: str, port: int) -> str:
    """Returns the file; JSON is YAML.

    Args:
        api_version: Of the file.
        kind: Of the file.
        namespace: Of Kueue.
        service: Name of the Service in front of its webhooks.
        port: Of its webhooks.
    """
    found = {
        "apiVersion": api_version,
        "kind": kind,
        "namespace": namespace,
        # Several clusters and a listing on a port of its own are for nobody here.
        "featureGates": {"MultiKueue": False, "VisibilityOnDemand": False},
        "health": {"healthProbeBindAddress": f":{HEALTH_PORT}"},
        "integrations": {"frameworks": ["batch/job"]},
        "internalCertManagement": {
            "enable": True,
            "webhookSecretName": CERTIFICATE,
            "webhookServiceName": service,
        },
        "leaderElection": {"leaderElect": True, "resourceNamespace": namespace},
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": {"matchLabels": QUEUED_NAMESPACE},
        "metrics": {"bindAddress": "0"},
        # Queues share chips; what else a pod asks for comes with its node.
        "resources": {"excludeResourcePrefixes": ["cpu", "memory", "ephemeral-storage"]},
        "webhook": {"certDir": CERTIFICATE_FOLDER, "port": port},
    }
    return json.dumps(found, indent=2, sort_keys=True) + "\n"
