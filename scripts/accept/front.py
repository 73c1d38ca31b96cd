"""The front over all regions: its address, certificate, and the models behind it."""

from collections.abc import Iterator
from dataclasses import replace

from gke_inference.catalogue.load_balancing import CATALOGUE_PATH
from gke_inference.front.routes import PATH_OF_MODELS
from infra.stack import Task
from scripts.accept.answers import question_of
from scripts.accept.deployed import Deployed, Door, seen
from scripts.accept.endpoint import certificate, listing, trust_of
from scripts.accept.row import Row, Subject
from scripts.client_keys.permissions import names_of
from scripts.shared.google_cloud import NotFound
from scripts.terminal.console import CommandError

_PLACE = "the front"


def front_certificates(deployed: Deployed) -> Iterator[Row]:
    """Yield whether the front presents a certificate that clients trust."""
    front, host = deployed.plan.front, deployed.plan.front.gateway.hostname
    if not front.has_load_balancer or host is None:
        return
    subject = Subject("certificate", _PLACE, f"trusted, for {host}")

    def look() -> Row:
        door = _door(deployed)
        port = front.gateway.listening_port
        return certificate(subject, door.address, port, host, trust_of(door.url))

    yield seen(subject, look)


def front_listings(deployed: Deployed) -> Iterator[Row]:
    """Yield whether the front's plain URL lists the models that every region serves."""
    front = deployed.plan.front
    if not front.has_load_balancer or not front.answering:
        return
    names = sorted(names_of(deployed.plan, deployed.plan.platform.models))
    subject = Subject(CATALOGUE_PATH, _PLACE, ", ".join(deployed.offered(names)))

    def look() -> Row:
        return listing(deployed, subject, _door(deployed), names)

    yield seen(subject, look)


def front_answers(deployed: Deployed) -> Iterator[Row]:
    """Yield whether each model answers through the front, on every URL that leads to it."""
    front = deployed.plan.front
    if not front.has_load_balancer:
        return
    for name, model in deployed.plan.platform.models.items():
        if front.answering or front.router is not None:
            yield _answer(deployed, name, model.task, "")
        if name in front.paths:
            yield _answer(deployed, name, model.task, f"{PATH_OF_MODELS}{name}")


def _answer(deployed: Deployed, model: str, task: Task, path: str) -> Row:
    kind, predicted, ask = question_of(task)
    subject = Subject(kind, f"{model} through {_PLACE}{path and f', {path}'}", predicted)

    def look() -> Row:
        door = _door(deployed)
        with deployed.asking(replace(door, url=door.url + path), model) as client:
            return ask(subject, client, model)

    return seen(subject, look)


def _door(deployed: Deployed) -> Door:
    """Return the entry point of the front, with its reserved address.

    Raises:
        CommandError: There is no such address.
        CloudError: Google refuses.
    """
    plan = deployed.plan
    name = plan.names.front()
    url = f"compute.googleapis.com/compute/v1/projects/{plan.project.id}/global/addresses/{name}"
    try:
        address = str(deployed.cloud.get(url)["address"])
    except NotFound:
        raise CommandError(f"there is no address {name}: the front is not up") from None
    return Door(plan.front.gateway.endpoint(address), address)
