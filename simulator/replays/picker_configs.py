"""Configurations of the endpoint picker: the shipped one, and that of the upstream chart."""

from dataclasses import dataclass

from gke_inference.gateway.picker_config import picker_config

UPSTREAM_DEFAULTS = """\
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 2
  - pluginRef: kv-cache-utilization-scorer
    weight: 2
  - pluginRef: prefix-cache-scorer
    weight: 3
"""
"""Configuration in the upstream chart (gateway-api-inference-extension v1.5.0,
config/charts/epplib/templates/_config.yaml)."""


@dataclass(frozen=True)
class Facts:
    """What a pool serves; see `gke_inference.gateway.picker`."""

    has_adapters: bool = False
    has_sessions: bool = False
    """Whether requests are turns of sessions."""


def shipped(facts: Facts) -> str:
    """Return the configuration that the platform writes for a model."""
    return picker_config(has_adapters=facts.has_adapters)
