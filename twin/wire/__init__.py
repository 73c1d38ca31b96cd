"""Protocols: Kubernetes API, Pulumi RPC, HTTP answers."""
