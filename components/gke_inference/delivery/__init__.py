"""Delivery of models from git: what reads their objects, and where from."""
