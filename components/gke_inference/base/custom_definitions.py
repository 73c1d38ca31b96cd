"""Custom resource definitions that the components install because GKE does not."""

from gke_inference.catalogue.versions import api

from .manifests import Manifest, labels_for, manifest


def definition(
    lock_name: str,
    plural: str,
    component: str,
    *,
    spec: Manifest,
    status: Manifest,
    names: Manifest | None = None,
    subresources: Manifest | None = None,
    version: Manifest | None = None,
) -> Manifest:
    """Return one definition. An existing one in the cluster is taken over (patchForce).

    Args:
        lock_name: Name of the kind in the versions lock.
        plural: name of the kind in paths.
        component: Component that needs the kind, for the labels.
        spec: schema of `spec`.
        status: schema of `status`.
        names: more of `names`, such as short names.
        subresources: `status` alone by default.
        version: more of the version, such as columns.
    """
    kind = api(lock_name)
    schema: Manifest = {
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        "type": "object",
    }
    served: Manifest = {
        "name": kind.api_version.rpartition("/")[2],
        "schema": {"openAPIV3Schema": schema},
        "served": True,
        "storage": True,
        "subresources": {"status": {}} if subresources is None else subresources,
        **(version or {}),
    }
    return manifest(
        "custom_resource_definition",
        f"{plural}.{kind.group}",
        annotations={"pulumi.com/patchForce": "true"},
        labels=labels_for(plural, component),
        spec={
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": plural,
                "singular": kind.kind.lower(),
                **(names or {}),
            },
            "scope": "Namespaced",
            "versions": [served],
        },
    )
