"""Clients of the endpoint: who they are, what they may use, and how much of it."""
