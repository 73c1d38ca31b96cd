"""GKE's work inside a cluster: capacity, node agents and the gateway, on a real API server."""
