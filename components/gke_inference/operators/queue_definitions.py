"""CustomResourceDefinitions of Kueue, which GKE does not install.

Kueue watches all of these kinds. It writes its CA into five of them for the conversion of older
versions, although these definitions serve only one version.
"""

from pathlib import Path
from typing import Final

from gke_inference.base.custom_definitions import published_definition
from gke_inference.base.manifests import Manifest
from gke_inference.catalogue.data_file import read_table

_COMPONENT: Final = "queue-operator"
_FILE: Final = Path(__file__).parent / "data" / "queue_kinds.yaml"
_LOCK_NAMES: Final = {
    "admissionchecks": "admission_check",
    "clusterqueues": "cluster_queue",
    "cohorts": "queue_cohort",
    "localqueues": "local_queue",
    "multikueueclusters": "multikueue_cluster",
    "multikueueconfigs": "multikueue_config",
    "provisioningrequestconfigs": "provisioning_request_config",
    "resourceflavors": "resource_flavor",
    "topologies": "queue_topology",
    "workloadpriorityclasses": "workload_priority_class",
    "workloads": "queued_workload",
}
CONVERTED: Final = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
"""Kinds in whose definition Kueue's certificate manager expects a conversion webhook."""


def definitions(namespace: str, service: str) -> dict[str, Manifest]:
    """Return the definitions by plural name.

    Args:
        namespace: Namespace of the operator.
        service: Name of the operator's Service.
    """
    return {
        plural: _definition(plural, found, {"name": service, "namespace": namespace})
        for plural, found in read_table(_FILE).items()
    }


def _definition(plural: str, found: Manifest, service: dict[str, str]) -> Manifest:
    conversion: Manifest = {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"service": {**service, "path": "/convert"}},
            "conversionReviewVersions": ["v1"],
        },
    }
    more: Manifest = {"conversion": conversion} if plural in CONVERTED else {}
    return published_definition(_LOCK_NAMES[plural], plural, _COMPONENT, found, more)
