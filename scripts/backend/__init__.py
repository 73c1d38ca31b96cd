"""Backends of deployed stacks, the twin and Google Cloud, with one protocol for both."""
