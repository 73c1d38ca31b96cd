"""The twin's stand-in for GKE's managed Gateway controller: real Envoys, real endpoint pickers.

`translate` is pure: Kubernetes objects to a `model`, and what users are told about them. The
`envoy_*` modules turn a model into Envoy's words, `dataplane` gives them to an Envoy without a
dropped request, `controller` ties it all to an API server.
"""

from twin.cluster.gateway.controller import GatewayController, stop_all

__all__ = ["GatewayController", "stop_all"]
