"""Checks rendered files with a real API server and with the gcp provider."""

import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import yaml

from policies.framework.reading import CLUSTER
from policies.objects.documents import LOADER
from scripts.shared.preview_states import NOT_KNOWN
from twin import daemon
from twin.cluster import lifecycle as clusters
from twin.cluster.base.context import ClusterSpec
from twin.host.paths import TwinPaths
from twin.providers.gcp.checks.validate import validate_inputs
from twin.wire.kube import Kube, KubeError
from twin.wire.property_values import UNKNOWN, Json

_STORED = ("Namespace", "CustomResourceDefinition")
_SERVED_SECONDS = 20


def check_objects(kube: Kube, objects: list[dict[str, Any]]) -> list[str]:
    """Return the objects that an API server rejects, with the reasons.

    Only namespaces and definitions are stored, because the other objects need them.

    Args:
        kube: Server that has GKE's kinds.
        objects: Objects of one cluster.
    """

    def refusal(obj: dict[str, Any]) -> str | None:
        try:
            kube.apply(obj, manager="strict", dry_run=obj["kind"] not in _STORED)
        except KubeError as error:
            return f"{obj['kind']} {obj['metadata']['name']}: {error.message}"
        return None

    first = [obj for obj in objects if obj["kind"] in _STORED]
    rest = [obj for obj in objects if obj["kind"] not in _STORED]
    with ThreadPoolExecutor(8) as pool:
        refused = [refusal(obj) for obj in first]
        _wait_served(kube, first)
        refused += list(pool.map(refusal, rest))
    return [line for line in refused if line]


def _wait_served(kube: Kube, objects: list[dict[str, Any]]) -> None:
    """Wait until the kinds of stored definitions are served."""
    wanted = [
        (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
        for spec in (obj["spec"] for obj in objects if obj["kind"] == _STORED[1])
        for version in spec["versions"]
        if version["served"]
    ]
    until = time.monotonic() + _SERVED_SECONDS
    for api_version, kind in wanted:
        while time.monotonic() < until:
            try:
                kube.resource(api_version, kind)
            except KubeError:
                time.sleep(0.1)
            else:
                break


def check_resources(resources: list[dict[str, Any]]) -> list[str]:
    """Return the resource inputs that the gcp provider rejects, with the reasons."""
    return [
        f"{state['urn'].rsplit('::', 1)[1]} ({state['type']}): {failure}"
        for state in resources
        if state["type"].startswith("gcp:")
        for failure in validate_inputs(state["type"], _unknown_again(state["inputs"]))
    ]


def _unknown_again(value: Any) -> Any:
    """Return inputs in the engine's form, with markers for unknown values."""
    if isinstance(value, dict):
        return {key: _unknown_again(each) for key, each in cast("Json", value).items()}
    if isinstance(value, list):
        return [_unknown_again(each) for each in cast("list[Any]", value)]
    return UNKNOWN if value == NOT_KNOWN else value


def _versions(resources: list[dict[str, Any]]) -> dict[str, str]:
    """Return the GKE version of each cluster, which determines what its API server accepts."""
    return {
        str(state["inputs"]["name"]): str(state["inputs"]["minMasterVersion"])
        for state in resources
        if state["type"] == CLUSTER and "minMasterVersion" in state["inputs"]
    }


def check_folder(folder: Path) -> list[str]:
    """Return every rejection of the files that `render` wrote into a folder.

    Clusters of one version that store the same namespaces and definitions share an API server: no
    other object is stored, so none has an effect on the objects of another cluster.
    """
    resources: list[dict[str, Any]] = json.loads((folder / "resources.json").read_text())
    problems = check_resources(resources)
    versions = _versions(resources)
    alike: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for cluster in sorted((folder / "manifests").iterdir()):
        files = sorted(cluster.rglob("*.yaml"))
        objects = [yaml.load(file.read_text(), LOADER) for file in files]  # noqa: S506 - a safe one
        stored = [obj for obj in objects if obj["kind"] in _STORED]
        key = (versions.get(cluster.name, ""), json.dumps(stored, sort_keys=True))
        alike.setdefault(key, {})[cluster.name] = objects
    with tempfile.TemporaryDirectory(prefix="strict-") as temporary:
        paths = TwinPaths(Path(temporary))
        daemon.prepare(paths)
        for (version, _), members in alike.items():
            spec = ClusterSpec(
                project="strict",
                location="us-central1",
                name=next(iter(members)),
                zones=("us-central1-a",),
                autopilot=False,
                version=version,
                uid="strict",
            )
            try:
                kube = Kube(clusters.create(spec, paths).kubeconfig)
                for name, objects in members.items():
                    problems += [f"{name}: {line}" for line in check_objects(kube, objects)]
            finally:
                clusters.delete(spec.location, spec.name, paths)
    return problems
