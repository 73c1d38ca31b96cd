"""Whether accelerators hold a model: architectures, shapes and memory, free of Pulumi."""
