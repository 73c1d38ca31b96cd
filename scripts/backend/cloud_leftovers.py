"""Leftovers of a stack in a project, and of GKE's controllers in its network.

Controllers create load balancers, endpoint groups, firewall rules and disks for the objects of a
cluster, and remove them while the cluster exists. After that nothing removes them, and a network
with such resources cannot be deleted
(docs.cloud.google.com/sdk/gcloud/reference/container/clusters/delete, 2026-11-22).
"""

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from gke_inference.catalogue.names import service_account_email
from infra.plan import Plan
from scripts.backend.backend import Leftover, Maker
from scripts.shared.google_cloud import Cloud, CloudError, Json, NotFound, last

_COMPUTE: Final = "compute.googleapis.com/compute/v1"
_CONTAINER: Final = "container.googleapis.com/v1/projects"
_STORAGE: Final = "storage.googleapis.com/storage/v1/b"
_IAM: Final = "iam.googleapis.com/v1/projects"
_CLUSTER_LABEL: Final = "goog-k8s-cluster-name"
"""Label of disks that the Persistent Disk CSI driver makes
(docs.cloud.google.com/kubernetes-engine/docs/how-to/persistent-volumes/gce-pd-csi-driver)."""
_GKE_NAME: Final = re.compile(r"(gke|gk3|gkegw\d|gkemcg\d|k8s\d?)-.+|a[0-9a-f]{31}")
"""Names that GKE's controllers give; the last is that of a Service's load balancer
(docs.cloud.google.com/kubernetes-engine/docs/concepts/firewall-rules and the list in gcloud's
`compute network-firewall-policies` migration, 2026-11-22)."""
_TRIES: Final = 150
_SECONDS: Final = 2.0

_PROXIES: Final = ("targetHttpProxies", "targetHttpsProxies")
_KINDS: Final = {
    "forwardingRules": "forwarding rule",
    "targetHttpProxies": "target proxy",
    "targetHttpsProxies": "target proxy",
    "urlMaps": "URL map",
    "backendServices": "backend service",
    "healthChecks": "health check",
    "networkEndpointGroups": "network endpoint group",
    "firewalls": "firewall rule",
    "addresses": "address",
    "disks": "disk",
}
"""Collections of Compute Engine in the order of removal: each may use those behind it."""


def leftovers(cloud: Cloud, plan: Plan) -> list[Leftover]:
    """Return the leftovers of a stack in removal order, GKE's resources first.

    Raises:
        CloudError: Google refuses to show something.
    """
    return [*in_network(cloud, plan), *_own(cloud, plan)]


def in_network(cloud: Cloud, plan: Plan) -> Iterator[Leftover]:
    """Yield other resources in the stack's network, in removal order.

    Controllers of its clusters create these; resources managed elsewhere are recognized by name.

    A load balancer is found by what it refers to: endpoint groups and forwarding rules name the
    network, and everything between them is reached from one or the other.

    Raises:
        CloudError: Google refuses to show something.
    """
    names = plan.names
    network = names.network()
    found = {kind: list(_listed(cloud, kind)) for kind in _KINDS}
    of_network = {
        kind: {_link(each) for each in found[kind] if last(each.get("network")) == network}
        for kind in ("forwardingRules", "networkEndpointGroups", "firewalls")
    }
    maps = {
        _path(proxy.get("urlMap"))
        for kind in _PROXIES
        for proxy in found[kind]
        if _link(proxy) in {_path(each.get("target")) for each in found["forwardingRules"]
                            if _link(each) in of_network["forwardingRules"]}
    }  # fmt: skip
    services = {
        _link(each)
        for each in found["backendServices"]
        if _groups(each) & of_network["networkEndpointGroups"]
    }
    maps |= {_link(each) for each in found["urlMaps"] if _services(each) & services}
    services |= {
        service for each in found["urlMaps"] if _link(each) in maps for service in _services(each)
    }
    checks = {
        _path(check)
        for each in found["backendServices"]
        if _link(each) in services
        for check in each.get("healthChecks", [])
    }
    clusters = {region.cluster_name for region in plan.regions.values()}
    subnetworks = f"{network}-"
    wanted: dict[str, set[str]] = {
        **of_network,
        **{kind: {_link(p) for p in found[kind] if _path(p.get("urlMap")) in maps}
           for kind in _PROXIES},
        "urlMaps": maps,
        "backendServices": services,
        "healthChecks": checks,
        "addresses": {
            _link(each)
            for each in found["addresses"]
            if last(each.get("subnetwork")).startswith(subnetworks)
            and each.get("name") != names.address()
        },
        "disks": {
            _link(each)
            for each in found["disks"]
            if each.get("labels", {}).get(_CLUSTER_LABEL) in clusters
        },
    }  # fmt: skip
    wanted["firewalls"] -= {
        _link(each)
        for each in found["firewalls"]
        if each.get("name") == f"{network}-load-balancing"
    }
    for kind, noun in _KINDS.items():
        for each in found[kind]:
            path = _link(each)
            if path in wanted[kind]:
                maker = Maker.GKE if kind == "disks" or _is_of_gke(each) else Maker.OTHERS
                yield Leftover(noun, _placed(path), maker, path, has_data=kind == "disks")


def _is_of_gke(resource: Json) -> bool:
    """Return whether a controller created a resource, by its name or description."""
    is_named = _GKE_NAME.fullmatch(str(resource.get("name", ""))) is not None
    return is_named or "kubernetes.io/" in str(resource.get("description", ""))


def remove(cloud: Cloud, leftover: Leftover) -> None:
    """Remove a Compute Engine resource, and wait for the operation.

    Raises:
        CloudError: Google refuses, or it takes longer than five minutes.
    """
    try:
        operation = cloud.delete(f"{_COMPUTE}/{leftover.path}")
    except NotFound:
        return  # a controller removed it first
    for _ in range(_TRIES):
        if operation.get("status") == "DONE":
            break
        cloud.sleep(_SECONDS)
        operation = cloud.get(f"{_COMPUTE}/{_path(operation.get('selfLink'))}")
    else:
        raise CloudError(
            f"{leftover} has not been removed after five minutes; run the command again"
        )
    errors: list[Json] = operation.get("error", {}).get("errors", [])
    if errors:
        raise CloudError(f"{leftover}: {errors[0].get('message', 'was not removed')}")


def clusters_of(cloud: Cloud, plan: Plan) -> list[str]:
    """Return the clusters in the stack's network, the stack's own or not: `NAME in LOCATION`.

    Raises:
        CloudError: Google refuses to show them, or a location does not answer.
    """
    network = plan.names.network()
    answer = cloud.get(f"{_CONTAINER}/{cloud.project}/locations/-/clusters")
    silent: list[str] = answer.get("missingZones", [])
    if silent:
        raise CloudError(
            f"GKE cannot list the clusters in {', '.join(silent)}; run the command again"
        )
    return [
        f"{each['name']} in {each['location']}"
        for each in answer.get("clusters", [])
        if last(each.get("network")) == network
    ]


def _own(cloud: Cloud, plan: Plan) -> Iterator[Leftover]:
    """Yield the stack's own resources that cost money, hold data, or block a new `up`."""
    names = plan.names
    for cluster in clusters_of(cloud, plan):
        yield Leftover("cluster", cluster)
    start = f"{_COMPUTE}/projects/{cloud.project}"
    lookups = {("network", names.network()): f"{start}/global/networks/{names.network()}"}
    for region in plan.regions:
        lookups["address", f"{names.address()} in {region}"] = (
            f"{start}/regions/{region}/addresses/{names.address()}"
        )
        for role in ("models", "caches"):
            bucket = names.bucket(role, region)
            lookups["bucket", bucket] = f"{_STORAGE}/{bucket}"
        account = service_account_email(names.node_account(region), cloud.project)
        lookups["service account", account] = f"{_IAM}/{cloud.project}/serviceAccounts/{account}"
    disks = {names.disk(name, each.region) for name, m in plan.models.items() for each in m}
    for disk in _listed(cloud, "disks"):
        if any(str(disk.get("name", "")).startswith(f"{name}") for name in disks):
            yield Leftover("disk", _placed(_link(disk)), has_data=True)
    for (kind, name), url in lookups.items():
        try:
            cloud.get(url)
        except NotFound:
            continue
        yield Leftover(kind, name, has_data=kind == "bucket")


def _listed(cloud: Cloud, kind: str) -> Iterator[Json]:
    """Yield every resource of a kind: global, and in all regions and zones."""
    start = f"{_COMPUTE}/projects/{cloud.project}"
    if kind == "firewalls":
        yield from cloud.pages(f"{start}/global/{kind}", "items")
        return
    for page in cloud.answers(f"{start}/aggregated/{kind}", returnPartialSuccess="false"):
        scopes: dict[str, Json] = page.get("items", {})
        for scope in scopes.values():
            yield from scope.get(kind, [])


def _path(link: Any) -> str:
    """Return the path of a link to a resource, `projects/P/…`; empty for none."""
    return str(link or "").partition("/compute/v1/")[2]


def _link(resource: Json) -> str:
    return _path(resource.get("selfLink"))


def _placed(path: str) -> str:
    """Return `NAME in ZONE`, or the name of a global resource."""
    parts = path.split("/")
    return last(path) if parts[2] == "global" else f"{last(path)} in {parts[3]}"


def _groups(service: Json) -> set[str]:
    backends: list[Json] = service.get("backends", [])
    return {_path(each.get("group")) for each in backends}


def _services(value: Any) -> set[str]:
    """Return every backend service that a URL map refers to, at any depth."""
    if isinstance(value, dict):
        found: set[str] = set()
        for key, inner in cast("dict[str, Any]", value).items():
            if key in {"backendService", "defaultService", "service"} and isinstance(inner, str):
                found.add(_path(inner))
            else:
                found |= _services(inner)
        return found
    if isinstance(value, list):
        return {path for inner in cast("list[Any]", value) for path in _services(inner)}
    return set()
