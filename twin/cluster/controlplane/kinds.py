"""The CRDs that GKE installs, as files.

Upstream CRDs (Gateway API, inference extension) come from the modules of the tools. GKE's own CRDs
are in `crds/`, with every field that Google publishes.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from gke_inference.catalogue.versions import gke_minimum, version_key
from twin.toolchain import module_of, share
from twin.wire.kube import JsonObject

_OWN = Path(__file__).with_name("crds")
_UPSTREAM = ("crds/gateway", "crds/inference")
_LEFT_TO_USERS = ("inference.networking.x-k8s.io",)
_SINCE = {"CapacityBuffer": "capacity-buffers"}
"""Kinds that older versions of GKE do not have, with the feature that brings them."""


def load_all(file: Path) -> list[JsonObject]:
    """Return the documents of a YAML file that are not empty."""
    # uses libyaml if the wheel has it; without it, 9,000 lines of schema take 2 s
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(file.read_text(), loader) if document]


def has_kind(kind: str, version: str) -> bool:
    """Return whether a version of GKE has one of its own kinds (rule buffer.version)."""
    return kind not in _SINCE or version_key(version) >= version_key(gke_minimum(_SINCE[kind]))


def own_crds(version: str | None = None) -> list[JsonObject]:
    """Return GKE's own CRDs, by default those of the newest version."""
    files = sorted(_OWN.glob("*.yaml"))
    found = [crd for file in files for crd in load_all(file)]
    if version is None:
        return found
    return [crd for crd in found if has_kind(crd["spec"]["names"]["kind"], version)]


def gke_crds(version: str) -> list[JsonObject]:
    """Return the CRDs that a version of GKE installs.

    Raises:
        ToolError: the tools with upstream CRDs are not installed.
    """
    return own_crds(version) + upstream_crds(map(share, _UPSTREAM))


def upstream_crds(folders: Iterable[Path]) -> list[JsonObject]:
    """Return the CRDs from the YAML files of some folders that GKE installs.

    GKE installs InferencePool but not the other kinds of the inference extension.
    """
    files = (file for folder in folders for file in sorted(folder.rglob("*.yaml")))
    documents = (document for file in files for document in load_all(file))
    return [
        item
        for item in documents
        if item.get("kind") == "CustomResourceDefinition"
        and item.get("spec", {}).get("group") not in _LEFT_TO_USERS
    ]


def key(version: str) -> str:
    """Return a hash of the CRDs of a version of GKE and of the API server that stores them.

    Raises:
        ToolError: the tools with upstream CRDs are not installed.
    """
    content = hashlib.sha256(module_of("kube-apiserver").key.encode())
    has = {kind: has_kind(kind, version) for kind in _SINCE}
    content.update(repr((_LEFT_TO_USERS, has)).encode())
    for folder in (_OWN, *map(share, _UPSTREAM)):
        for file in sorted(folder.rglob("*.yaml")):
            content.update(file.read_bytes())
    return content.hexdigest()[:16]
