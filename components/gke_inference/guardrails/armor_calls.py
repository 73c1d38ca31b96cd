"""Load balancer calls to Model Armor: an extension in the chain of a Gateway.

A Gateway has one GCPTrafficExtension
(docs.cloud.google.com/service-extensions/docs/reference/rest/v1/projects.locations.lbTrafficExtensions),
so the calls are items of its chain, of at most three.
"""

import json
from typing import TypedDict

from gke_inference.base.manifests import Manifest, labels_for, manifest
from gke_inference.catalogue.versions import api

COMPONENT = "model-armor"
"""Value of `app.kubernetes.io/component` on its objects."""
FAILURES = ("closed", "open")
"""Behavior while Model Armor does not answer: reject all requests, or allow them."""
EVENTS = (
    "RequestHeaders",
    "RequestBody",
    "RequestTrailers",
    "ResponseHeaders",
    "ResponseBody",
    "ResponseTrailers",
)


class ArmorCallArgs(TypedDict):
    """One call from a Gateway to Model Armor."""

    failure: str
    """While Model Armor is unavailable, `closed` rejects requests and `open` allows them."""
    location: str
    """Region of the templates, which must be that of the Gateway."""
    templates: dict[str, str]
    """Template of each model, `projects/P/locations/L/templates/T`, by the name that clients
    request."""
    timeout_ms: int
    """Timeout per message in milliseconds, 10 to 10000."""


def armor_extension(call: ArmorCallArgs) -> Manifest:
    """Return the chain extension that calls Model Armor.

    A model without an entry is not checked, since there is no `default` entry. This is assumed.
    """
    settings = [
        {"model": model, "model_response_template_id": name, "user_prompt_template_id": name}
        for model, name in sorted(call["templates"].items())
    ]
    return {
        "failOpen": call["failure"] == "open",
        "googleAPIServiceName": f"modelarmor.{call['location']}.rep.googleapis.com",
        "metadata": {"model_armor_settings": json.dumps(settings)},
        "name": f"model-armor-{call['failure']}",
        "supportedEvents": list(EVENTS),
        "timeout": f"{int(call['timeout_ms'])}ms",
    }


def armor_gate(name: str, namespace: str, gateway: str, calls: list[ArmorCallArgs]) -> Manifest:
    """Return a GCPTrafficExtension that calls only Model Armor."""
    target = api("gateway").reference(gateway)
    chain = {"extensions": [armor_extension(call) for call in calls], "name": "guardrails"}
    return manifest(
        "gateway_traffic_extension",
        name,
        namespace,
        labels=labels_for(name, COMPONENT),
        spec={"extensionChains": [chain], "targetRefs": [target]},
    )
