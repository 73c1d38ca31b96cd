"""This machine: paths, processes, ports, locks, certificates."""
