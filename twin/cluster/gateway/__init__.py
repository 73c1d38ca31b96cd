"""The twin's stand-in for GKE's managed Gateway controller: real Envoys, real endpoint pickers.

`translation` is pure: it turns Kubernetes objects into a `model` and their statuses. The `envoy`
package turns a model into Envoy configuration, which its `dataplane` loads without dropping
requests. `controller` connects everything to an API server.
"""

from twin.cluster.gateway.controller import GatewayController, stop_all

__all__ = ["GatewayController", "stop_all"]
