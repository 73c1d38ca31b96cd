"""Which accelerators, topologies and replicas serve a load, and at what cost."""
