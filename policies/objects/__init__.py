"""The rendered objects of a cluster: pods, engines, routes and their references."""
