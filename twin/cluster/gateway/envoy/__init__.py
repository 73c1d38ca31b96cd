"""Envoy's configuration and process."""
