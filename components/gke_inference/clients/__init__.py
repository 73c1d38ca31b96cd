"""Clients of the endpoint: identity, permissions and limits."""
