"""The world outside the clusters: rules, events, regions, machines, capacity, quota."""
