"""Objects that GKE installs in a new cluster: CRDs, namespaces, classes and admission policies.

The CRDs are those of `kinds.py`.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from gke_inference.catalogue.managed_prometheus import collectors_namespace
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import parts
from twin.cluster.base.reports import timestamp
from twin.cluster.controlplane import stored_kinds
from twin.cluster.controlplane.kinds import gke_crds, key, load_all, upstream_crds
from twin.wire.kube import JsonObject, Kube, KubeError

_HERE = Path(__file__).parent
_DIGEST = "gke-inference.dev/schema-digest"
_MANAGER = "gke"
_WORKERS = 12
_ESTABLISHED_SECONDS = 60.0
_CRD = "apiextensions.k8s.io/v1"
_CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def digest(crd: JsonObject) -> str:
    """Return a short hash of a CRD's content, stored as an annotation."""
    content = json.dumps(crd["spec"], sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()[:16]


@cache
def _objects() -> JsonObject:
    return load_all(_HERE / "objects.yaml")[0]


def gke_objects(autopilot: bool) -> list[JsonObject]:
    """Return the objects other than CRDs, in the order in which they can be applied."""
    data = _objects()
    named: list[JsonObject] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in (collectors_namespace(autopilot=autopilot), *data["namespaces"])
    ]
    named += [_storage_class(name, body) for name, body in data["storage_classes"].items()]
    named += [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": name},
            "spec": spec,
        }
        for name, spec in data["csi_drivers"].items()
    ]
    named += [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in data["priority_classes"].items()
    ]
    if autopilot:
        named += [data["autopilot_grace_policy"], data["autopilot_grace_policy_binding"]]
    for name in ("compute_class_policy", "pod_networks_policy"):
        named += [data[name], data[f"{name}_binding"]]
    return named


def _storage_class(name: str, body: JsonObject) -> JsonObject:
    metadata: JsonObject = {"name": name, "labels": dict(body.get("labels", {}))}
    metadata["labels"]["addonmanager.kubernetes.io/mode"] = "EnsureExists"
    if body.get("default"):
        metadata["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": body["provisioner"],
        "parameters": body["parameters"],
        "reclaimPolicy": "Delete",
        "volumeBindingMode": body["binding"],
        "allowVolumeExpansion": body["expand"],
    }


def gateway_classes() -> list[JsonObject]:
    """Return the gateway classes that GKE installs."""
    return [
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "GatewayClass",
            "metadata": {"name": name},
            "spec": {"controllerName": "networking.gke.io/gateway"},
        }
        for name in _objects()["gateway_classes"]
    ]


def _gateway_objects() -> list[JsonObject]:
    """Return the objects that need the CRDs: gateway classes and the collector configuration."""
    return [*gateway_classes(), _objects()["operator_config"]]


def _install_crds(kube: Kube, crds: list[JsonObject], pool: ThreadPoolExecutor) -> None:
    """Create or update CRDs that differ from the server's, and wait until all are served.

    Raises:
        KubeError: the server rejected a CRD.
        TimeoutError: a CRD was not established in time.
    """
    have = {item["metadata"]["name"]: item for item in kube.list(_CRD_PATH)}

    def put(crd: JsonObject) -> None:
        name = crd["metadata"]["name"]
        annotations = {_DIGEST: digest(crd), **crd["metadata"].get("annotations", {})}
        held = have.get(name, {}).get("metadata", {}).get("annotations", {}).get(_DIGEST)
        if held == annotations[_DIGEST]:
            return
        metadata = {"name": name, "annotations": annotations}
        if "labels" in crd["metadata"]:
            metadata["labels"] = crd["metadata"]["labels"]
        body = {"apiVersion": _CRD, "kind": crd["kind"], "metadata": metadata, "spec": crd["spec"]}
        if name in have:
            kube.apply(body, manager=_MANAGER)
            return
        try:
            kube.post(_CRD_PATH, body, fieldManager=_MANAGER, fieldValidation="Strict")
        except KubeError as error:
            if error.status != 409:
                raise

    list(pool.map(put, crds))
    wanted = {version for crd in crds for version in _served_versions(crd)}
    deadline = time.monotonic() + _ESTABLISHED_SECONDS
    while missing := wanted - _served(kube, {api for api, _ in wanted}):
        if time.monotonic() > deadline:
            named = ", ".join(sorted(f"{plural} of {api}" for api, plural in missing))
            raise TimeoutError(f"CRDs not established: {named}")
        wanted = missing
        time.sleep(0.1)


def _served_versions(crd: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield API version and plural of what a CRD serves."""
    spec = crd["spec"]
    for version in spec["versions"]:
        if version["served"]:
            yield f"{spec['group']}/{version['name']}", str(spec["names"]["plural"])


def _served(kube: Kube, api_versions: set[str]) -> set[tuple[str, str]]:
    """Return API version and plural of the kinds that the server serves."""
    found: set[tuple[str, str]] = set()
    for api in api_versions:
        try:
            kinds = parts(kube.get(f"/apis/{api}"), "resources")
        except KubeError as error:
            if error.status not in {404, 503}:
                raise
            continue
        found |= {(api, str(kind["name"])) for kind in kinds}
    return found


def _retried(action: Callable[[], object], seconds: float = 15.0) -> None:
    """Retry an action while the server does not yet know a newly created kind."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            action()
        except KubeError as error:
            if error.status not in {0, 404, 409, 503} or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def _accept(kube: Kube, name: str) -> None:
    path = f"/apis/gateway.networking.k8s.io/v1/gatewayclasses/{name}/status"
    condition = {
        "type": "Accepted",
        "status": "True",
        "reason": "Accepted",
        "message": "",
        "lastTransitionTime": timestamp(),
    }
    kube.patch(path, {"status": {"conditions": [condition]}})


def install(ctx: ClusterContext, stop: threading.Event, addons: Iterable[Path] = ()) -> None:
    """Install everything and write `ready.json`; a second call changes nothing.

    A new Autopilot cluster is ready before it has GKE's own kinds (rule `autopilot.kinds`).

    Args:
        ctx: The cluster.
        stop: Event that ends the wait of a new Autopilot cluster.
        addons: Folders of the CRDs of add-ons.

    Raises:
        KubeError: the API server rejected an object.
        TimeoutError: a CRD was not established within a minute.
    """
    started = time.monotonic()
    kube = ctx.kube
    kept_as = key(ctx.spec.version)
    own = stored_kinds.read(kept_as) or gke_crds(ctx.spec.version)  # YAML takes longer
    crds = own + upstream_crds(addons)
    is_first = not kube.get(_CRD_PATH, limit=1)["items"]
    with ThreadPoolExecutor(_WORKERS) as pool:
        plain = [pool.submit(_apply, kube, item) for item in gke_objects(ctx.spec.autopilot)]
        if ctx.spec.autopilot and is_first:
            _write_ready(ctx, started, 0)
            stop.wait(ctx.rules.scaled("autopilot.kinds"))
        with ThreadPoolExecutor(_WORKERS) as others:
            _install_crds(kube, crds, others)
        plain += [pool.submit(_apply, kube, item) for item in _gateway_objects()]
        for future in plain:
            future.result()
        classes: list[str] = _objects()["gateway_classes"]
        for accepted in [pool.submit(_accept, kube, name) for name in classes]:
            accepted.result()
    _write_ready(ctx, started, len(crds))
    if is_first and not ctx.spec.autopilot:  # nobody has changed one
        names = {crd["metadata"]["name"] for crd in own}
        stored = [item for item in kube.list(_CRD_PATH) if item["metadata"]["name"] in names]
        stored_kinds.keep(kept_as, stored)


def _write_ready(ctx: ClusterContext, started: float, crds: int) -> None:
    ready = {"seconds": round(time.monotonic() - started, 2), "crds": crds}
    (ctx.dir / "ready.json").write_text(json.dumps(ready))


def add_crds(kube: Kube, folders: Iterable[Path]) -> None:
    """Install the CRDs in some folders, as an add-on of GKE brings them.

    Raises:
        KubeError: the API server refused one.
        TimeoutError: one was not established within a minute.
    """
    with ThreadPoolExecutor(_WORKERS) as pool:
        _install_crds(kube, upstream_crds(folders), pool)


def _apply(kube: Kube, item: JsonObject) -> None:
    _retried(lambda: kube.apply(item, manager=_MANAGER))
