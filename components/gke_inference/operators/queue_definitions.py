"""CustomResourceDefinitions of Kueue, which GKE does not install.

Kueue watches all of these kinds. It writes its CA into five of them for the conversion of older
versions, although these definitions serve only one version.
"""

from pathlib import Path
from typing import Any, Final, cast

from gke_inference.base.manifests import Manifest, labels_for, manifest
from gke_inference.catalogue.data_file import read_table
from gke_inference.catalogue.versions import api

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
    kind = api(_LOCK_NAMES[plural])
    header: Manifest = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    schema = _spelled(found["schema"])
    served: Manifest = {
        "name": kind.api_version.rpartition("/")[2],
        "schema": {
            "openAPIV3Schema": {
                **schema,
                "properties": header | schema["properties"],
                "type": "object",
            }
        },
        "served": True,
        "storage": True,
    }
    if "columns" in found:
        served["additionalPrinterColumns"] = found["columns"]
    if found.get("status"):
        served["subresources"] = {"status": {}}
    spec: Manifest = {
        "group": kind.group,
        "names": {
            "kind": kind.kind,
            "listKind": f"{kind.kind}List",
            "plural": plural,
            "singular": kind.kind.lower(),
            **found.get("names", {}),
        },
        "scope": found["scope"],
        "versions": [served],
    }
    if plural in CONVERTED:
        spec["conversion"] = {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {**service, "path": "/convert"}},
                "conversionReviewVersions": ["v1"],
            },
        }
    return manifest(
        "custom_resource_definition",
        f"{plural}.{kind.group}",
        annotations={"pulumi.com/patchForce": "true"},
        labels=labels_for(plural, _COMPONENT),
        spec=spec,
    )


def _spelled(schema: Any) -> Any:
    """Return a schema in Pulumi's spelling of `x-kubernetes-…`; its provider restores dashes."""
    if isinstance(schema, list):
        return [_spelled(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return {
        (key.replace("-", "_") if key.startswith("x-kubernetes-") else key): _spelled(value)
        for key, value in cast("dict[str, Any]", schema).items()
    }
