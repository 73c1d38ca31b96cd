"""What stacks register, as policies and `check` read it."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from infra.deploy.team_program import deploy_team
from infra.plan import resolve
from infra.reading.load import parse, platform_of, read, settings_in
from infra.reading.platform_reference import planned, shared
from infra.stack import Layer, Platform
from infra.stack.layers import platform_name
from policies.framework.reading import STACK_REFERENCE
from policies.objects.documents import Document, Source
from tests.contract.infra.cloud import CloudRecorder, Deployed
from tests.contract.recorder import Registration
from twin.providers.kubernetes.manifests.objects import to_object


def parsed(document: dict[str, Any], folder: Path) -> Platform:
    """Return the platform of a document in a folder of stacks.

    Raises:
        StackError: It cannot be used.
    """
    return parse(json.dumps(document), partial(settings_in, folder))


def registered_by(
    platform: Platform,
    document: dict[str, Any],
    folder: Path,
    deployed: Deployed,
) -> list[Registration]:
    """Return what the program of a stack registers.

    Args:
        platform: The stack.
        document: Its text, which names the platform of a serving stack.
        folder: Folder with the file of that platform.
        deployed: Deploys stacks that are not on a platform.
    """
    if platform.layer is not Layer.SERVING:
        return deployed(platform).registrations
    name = platform_name(str(document["platform"]))
    below = read(name, folder)
    clusters = {region: each.cluster_name for region, each in resolve(below).regions.items()}
    given = shared(name, planned(below, clusters, "gke-1.example.goog"))
    cloud = CloudRecorder()
    cloud.run(lambda: deploy_team(platform, given, with_delivered=True))
    reference = Registration(STACK_REFERENCE, name, {}, "", "", (), False, frozenset())
    return [reference, *cloud.registrations]


def registered(file: Path, deployed: Deployed) -> list[Registration]:
    """Return what the program of a stack's file registers."""
    document = platform_of(file)
    return registered_by(
        read(file.name.split(".")[1], file.parent), document, file.parent, deployed
    )


def state(stack: str, seen: Registration) -> dict[str, Any]:
    """Return a registration as `render` writes it."""
    urn = f"urn:pulumi:{stack}::gke-inference::{seen.type}::{seen.name}"
    return {"type": seen.type, "urn": urn, "inputs": seen.inputs, "protect": seen.protected}


def clusters_of(made: list[Registration], resources: tuple[dict[str, Any], ...]) -> list[Source]:
    """Return the objects of each cluster, as `check` reads them."""
    found: dict[str, list[Document]] = {}
    for seen in made:
        if seen.type.startswith("kubernetes:"):
            documents = found.setdefault(seen.provider, [])
            documents.append(Document(seen.name, to_object(seen.inputs)))
    return [
        Source(provider, tuple(objects), resources) for provider, objects in sorted(found.items())
    ]
