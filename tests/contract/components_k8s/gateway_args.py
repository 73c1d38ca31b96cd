"""A gateway of two models, for all tests about it."""

import pulumi
import pytest

from gke_inference import Exposure
from gke_inference.gateway.inference_gateway import (
    InferenceGateway,
    InferenceGatewayArgs,
    RoutedModelArgs,
)
from gke_inference.intent.words import Task
from twin.cluster.agent.launching.static_server import Answer, Site

CUSTOM = {
    "pool": "kubernetes:inference.networking.k8s.io/v1:InferencePool",
    "objective": "kubernetes:inference.networking.x-k8s.io/v1alpha2:InferenceObjective",
    "gateway": "kubernetes:gateway.networking.k8s.io/v1:Gateway",
    "route": "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute",
    "extension": "kubernetes:networking.gke.io/v1:GCPRoutingExtension",
    "timeout": "kubernetes:networking.gke.io/v1:GCPBackendPolicy",
    "tls": "kubernetes:networking.gke.io/v1:GCPGatewayPolicy",
    "health": "kubernetes:networking.gke.io/v1:HealthCheckPolicy",
    "scrape": "kubernetes:monitoring.googleapis.com/v1:PodMonitoring",
}
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
LLAMA: RoutedModelArgs = {
    "model_name": "llama-3.1-8b",
    "pool_name": "llama-8b",
    "selector": {"gke-inference/model": "llama-8b"},
    "target_port": 8000,
    "timeout_seconds": 600,
    "adapters": ["sql", "support"],
}
EMBED: RoutedModelArgs = {
    "model_name": "bge-m3",
    "pool_name": "bge",
    "selector": {"gke-inference/model": "bge"},
    "target_port": 8000,
    "timeout_seconds": 30,
    "task": Task.EMBED,
}


def args(*models: RoutedModelArgs) -> InferenceGatewayArgs:
    return {
        "address_name": "acme-gateway",
        "exposure": Exposure.EXTERNAL,
        "gateway_name": "inference",
        "models": list(models or [LLAMA]),
        "namespace": "serving",
        "region": "us-east5",
    }


def build(recorder, arguments):
    recorder.run(lambda: InferenceGateway("gateway", arguments).gateway_name)
    return recorder


def refused(recorder, arguments, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        build(recorder, arguments)
    assert recorder.registrations == [] or all(
        seen.type.startswith(("gke-inference:", "pulumi:")) for seen in recorder.registrations
    )


def answer_of(site: Site, path: str, method: str = "GET") -> Answer:
    location = site.find(path)
    assert location is not None
    found = location.answer(method)
    assert found is not None
    return found
