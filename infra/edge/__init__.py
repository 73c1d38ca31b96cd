"""Wires what stands around the models of a region: clients, guards, other runtimes, batches."""
