"""Rules about Apigee in place of the teams of a stack."""

from collections.abc import Iterator
from typing import Final

from gke_inference.catalogue.input_error import InputError
from infra.stack import Clients, Platform

_ALONE: Final = "must not be set with clients.apigee"
_OF_THE_GATE: Final = sorted(set(Clients.model_fields) - {"apigee"})
"""Settings of the gate, which Apigee replaces: all others, also those that will be added."""


def check_apigee(platform: Platform) -> Iterator[InputError]:
    """Yield the settings that Apigee excludes: a Gateway calls one program in place of the gate."""
    clients = platform.clients
    if clients is None:
        return
    for field in _OF_THE_GATE:
        if field in clients.model_fields_set:
            message = f"{_ALONE}: Apigee checks requests in place of the gate"
            yield InputError(f"clients.{field}", message)
    if platform.guardrails:
        message = f"{_ALONE}: a Gateway has one traffic extension, and it calls Apigee"
        yield InputError("guardrails", message)
    callers = {
        "batches": platform.batches is not None,
        "personal_images": platform.personal_images is not None,
        "streams": bool(platform.streams),
        "teams": bool(platform.teams),
    }
    for field, is_set in callers.items():
        if is_set:
            message = f"{_ALONE}: its requests have no key of an Apigee app"
            yield InputError(field, message)
