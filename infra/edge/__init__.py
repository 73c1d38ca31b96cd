"""Wires the services around the models of a region: clients, guardrails, backends, batches."""
