"""RayClusterSet: the scale of a model on Ray clusters, which RayCluster itself does not have.

For why this is a kind of this platform, see docs/adr/0040-ray-clusters.md.
"""

from collections.abc import Mapping, Sequence

from gke_inference.base.custom_definitions import definition
from gke_inference.base.manifests import Manifest, manifest

PLURAL = "rayclustersets"

_COUNT: Manifest = {"format": "int32", "minimum": 0, "type": "integer"}
_TEXT: Manifest = {"minLength": 1, "type": "string"}


def cluster_set_definition(component: str) -> Manifest:
    """Return the CustomResourceDefinition, for the labels of a component.

    An autoscaler reads the pods' selector from the specification, because it must work before any
    controller has written a status.
    """
    return definition(
        "ray_cluster_set",
        PLURAL,
        component,
        spec={
            "properties": {
                "clusters": {"items": _TEXT, "minItems": 1, "type": "array"},
                "disruptionBudget": _TEXT,
                "replicas": _COUNT,
                "selector": _TEXT,
            },
            "required": ["clusters", "disruptionBudget", "replicas", "selector"],
            "type": "object",
        },
        status={
            "properties": {
                "observedGeneration": {"format": "int64", "type": "integer"},
                "readyReplicas": _COUNT,
                "replicas": _COUNT,
            },
            "type": "object",
        },
        subresources={
            "scale": {
                "labelSelectorPath": ".spec.selector",
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
            },
            "status": {},
        },
        version={"additionalPrinterColumns": _columns()},
    )


def cluster_set(
    name: str,
    namespace: str,
    clusters: Sequence[str],
    *,
    budget: str,
    labels: Mapping[str, str],
    replicas: int,
    selector: Mapping[str, str],
) -> Manifest:
    """Return the set of a model's Ray clusters. The first `replicas` of them run.

    Args:
        name: Name of the set.
        namespace: Namespace of the clusters.
        clusters: Names of the clusters, in the order in which they are resumed.
        budget: Name of their PodDisruptionBudget, which the scaler adapts.
        labels: Labels of the set.
        replicas: Initial number of clusters that run.
        selector: Labels of the heads, whose metrics an autoscaler reads.
    """
    return manifest(
        "ray_cluster_set",
        name,
        namespace,
        labels=dict(labels),
        spec={
            "clusters": list(clusters),
            "disruptionBudget": budget,
            "replicas": replicas,
            "selector": ",".join(f"{key}={value}" for key, value in sorted(selector.items())),
        },
    )


def _columns() -> list[Manifest]:
    shown = (
        ("Ready", ".status.readyReplicas", "integer"),
        ("Running", ".status.replicas", "integer"),
        ("Desired", ".spec.replicas", "integer"),
        ("Age", ".metadata.creationTimestamp", "date"),
    )
    return [{"jsonPath": path, "name": name, "type": kind} for name, path, kind in shown]
