"""Custom resource definitions that the components install because GKE does not."""

from typing import Any, cast

from gke_inference.catalogue.versions import ApiKind, api

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
    return _object(kind, plural, component, served, names or {}, "Namespaced")


def published_definition(
    lock_name: str, plural: str, component: str, found: Manifest, more: Manifest | None = None
) -> Manifest:
    """Return the definition of a kind whose published schema is in a data file.

    Args:
        lock_name: Name of the kind in the versions lock.
        plural: Name of the kind in paths.
        component: Component that needs the kind, for the labels.
        found: `schema` and `scope`, and as far as the kind has them `columns`, `names` and
            `status` (whether it has that subresource).
        more: More of the definition's spec, such as `conversion`.
    """
    kind = api(lock_name)
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
    names = found.get("names", {})
    return _object(kind, plural, component, served, names, found["scope"], more)


def _object(
    kind: ApiKind,
    plural: str,
    component: str,
    served: Manifest,
    names: Manifest,
    scope: str,
    more: Manifest | None = None,
) -> Manifest:
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
                **names,
            },
            "scope": scope,
            "versions": [served],
            **(more or {}),
        },
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
