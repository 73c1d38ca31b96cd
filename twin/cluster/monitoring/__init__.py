"""Managed Prometheus in a cluster: a real Prometheus that scrapes the configured targets."""
