"""The load balancer's call to the body router for the headers of responses."""

from gke_inference.catalogue.versions import api

from .manifests import Manifest

ROUTER_PORT = 9004
"""Port of the body router's external processor."""


def response_call(router: str, namespace: str) -> Manifest:
    """Return the extension that removes from responses the headers that no client gets.

    It is the first of its chain, and thus the last to see a response. Routes remove the same
    headers, but in Envoy before extensions and pickers act, and a picker adds one. If no replica
    answers, responses pass: their contents do not depend on it.

    Args:
        router: Name of the router's Service.
        namespace: Namespace of the Service.
    """
    return {
        "authority": f"{router}.{namespace}.svc",
        "backendRef": api("service").reference(router, port=ROUTER_PORT),
        "failOpen": True,
        "name": "response-headers",
        "supportedEvents": ["ResponseHeaders"],
        "timeout": "1s",
    }
