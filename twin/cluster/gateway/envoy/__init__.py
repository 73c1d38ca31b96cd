"""The configuration of Envoy, and its process."""
