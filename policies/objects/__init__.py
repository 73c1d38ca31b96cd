"""The rendered objects of a cluster: pods, engines, routes, and how they refer to each other."""
