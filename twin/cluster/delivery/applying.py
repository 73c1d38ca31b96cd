"""Apply a tree with the real kubectl: server-side, with pruning of objects that left the tree."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twin.cluster.base.fields import text_map
from twin.cluster.delivery.objects import Declared
from twin.wire.kube import JsonObject, Kube, KubeError

MANAGER: Final = "configsync"
SET: Final = "config-sync"
"""ConfigMap of the namespace that lists the managed objects as an ApplySet."""
PART_OF: Final = "applyset.kubernetes.io/part-of"
_ID: Final = "applyset.kubernetes.io/id"
_KINDS: Final = "applyset.kubernetes.io/contains-group-kinds"
_SECONDS: Final = 120.0
_MOST_LINES: Final = 20


@dataclass(frozen=True)
class Applied:
    """The result of an attempt."""

    objects: tuple[JsonObject, ...]
    """Objects as the API server returned them."""
    errors: tuple[str, ...]
    """Errors of the API server; if there are any, nothing was pruned."""


def apply(
    kubectl: Path, kubeconfig: Path, namespace: str, declared: list[Declared], folder: Path
) -> Applied:
    """Apply the objects of a tree, and delete those that are no longer in it.

    Args:
        kubectl: The program.
        kubeconfig: Of the cluster, as its administrator.
        namespace: Of the RepoSync, whose reconciler's rights are used.
        declared: The objects.
        folder: An empty folder for the files that kubectl reads.
    """
    for at, each in enumerate(declared):
        (folder / f"{at:04}.json").write_text(json.dumps(each.obj))
    argv = [
        *_as_reconciler(kubectl, kubeconfig, namespace),
        "apply",
        "--server-side",
        "--force-conflicts",
        f"--field-manager={MANAGER}",
        "--validate=strict",
        "--prune",
        f"--applyset=configmaps/{SET}",
        f"--filename={folder}",
        "--output=json",
    ]
    environment = {**os.environ, "KUBECTL_APPLYSET": "true"}
    try:
        ran = subprocess.run(
            argv, capture_output=True, text=True, check=False, env=environment, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return Applied((), (f"KNV2009: kubectl did not end within {_SECONDS:.0f} s",))
    errors: tuple[str, ...] = ()
    if ran.returncode:
        lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
        said = [line for line in lines if not line.startswith("Warning:")] or ["no reason given"]
        errors = tuple(f"KNV2009: {line}" for line in said[:_MOST_LINES])
    return Applied(tuple(_items(ran.stdout)), errors)


def remove(kubectl: Path, kubeconfig: Path, kube: Kube, namespace: str) -> str:
    """Delete everything that was applied, and wait until it is gone; return what was refused.

    Args:
        kubectl: The program.
        kubeconfig: Of the cluster, as its administrator.
        kube: The same cluster.
        namespace: Of the RepoSync, whose reconciler's rights are used.
    """
    path = f"/api/v1/namespaces/{namespace}/configmaps/{SET}"
    try:
        found = kube.get(path)
    except KubeError as error:
        if error.status == 404:
            return ""  # nothing was ever applied
        raise
    kinds = ",".join(sorted(each.lower() for each in known_kinds(kube, namespace)))
    if kinds:
        label = f"{PART_OF}={text_map(found['metadata'], 'labels').get(_ID, '')}"
        argv = [
            *_as_reconciler(kubectl, kubeconfig, namespace),
            "delete",
            kinds,
            f"--selector={label}",
            f"--timeout={_SECONDS:.0f}s",
        ]
        ran = subprocess.run(argv, capture_output=True, text=True, check=False)
        if ran.returncode:
            return " ".join(ran.stderr.split())
    kube.delete(path)
    return ""


def _as_reconciler(kubectl: Path, kubeconfig: Path, namespace: str) -> list[str]:
    """Return the beginning of a command with the rights of a namespace's reconciler."""
    account = f"system:serviceaccount:config-management-system:ns-reconciler-{namespace}"
    return [
        str(kubectl),
        f"--kubeconfig={kubeconfig}",
        f"--as={account}",
        f"--namespace={namespace}",
    ]


def known_kinds(kube: Kube, namespace: str) -> set[str]:
    """Return the kinds among which the next attempt looks for what to prune."""
    try:
        found = kube.get(f"/api/v1/namespaces/{namespace}/configmaps/{SET}")
    except KubeError as error:
        if error.status == 404:
            return set()
        raise
    notes = text_map(found["metadata"], "annotations")
    return {each for each in notes.get(_KINDS, "").split(",") if each}


def forget_refused(kube: Kube, namespace: str, before: set[str], applied: Applied) -> None:
    """Remove the kinds of refused objects from those that are listed.

    kubectl adds them before it knows that the reconciler may not even list them, and every later
    attempt would fail for it. Config Sync's inventory has single objects.

    Args:
        kube: The cluster, as its administrator.
        namespace: Of the RepoSync.
        before: Kinds before the attempt.
        applied: What came of it.
    """
    kinds = sorted(before | {_group_kind(obj) for obj in applied.objects})
    patch = {"metadata": {"annotations": {_KINDS: ",".join(kinds)}}}
    try:
        kube.patch(f"/api/v1/namespaces/{namespace}/configmaps/{SET}", patch)
    except KubeError as error:
        if error.status != 404:  # nothing at all was applied
            raise


def _group_kind(obj: JsonObject) -> str:
    group = str(obj["apiVersion"]).rpartition("/")[0]
    return f"{obj['kind']}.{group}" if group else str(obj["kind"])


def _items(output: str) -> list[JsonObject]:
    """Return the objects that kubectl printed, one behind the other or in a list."""
    found: list[JsonObject] = []
    decoder, at = json.JSONDecoder(), 0
    while (at := output.find("{", at)) >= 0:
        item, at = decoder.raw_decode(output, at)
        found += item["items"] if item.get("kind") == "List" else [item]
    return found
