"""Load balancer calls to Model Armor: an extension in the chain of a Gateway.

A Gateway has one GCPTrafficExtension
(docs.cloud.google.com/service-extensions/docs/reference/rest/v1/projects.locations.lbTrafficExtensions),
so the calls are items of its chain, of at most three.
"""

import json

from gke_inference.base.manifests import Manifest, labels_for, manifest
from gke_inference.catalogue.versions import api

from .settings import ArmorCallArgs

COMPONENT = "model-armor"
"""Value of `app.kubernetes.io/component` on its objects."""
EVENTS = (
    "RequestHeaders",
    "RequestBody",
    "RequestTrailers",
    "ResponseHeaders",
    "ResponseBody",
    "ResponseTrailers",
)


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
        "timeout": f"{call['timeout_ms']}ms",
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
