"""Fit of models on accelerators: architectures, shapes and memory, free of Pulumi."""
