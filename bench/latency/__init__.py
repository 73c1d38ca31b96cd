"""Latency at the gateway: that of the gateway itself, and that of its callout."""
