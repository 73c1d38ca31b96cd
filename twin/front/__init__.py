"""Routing of clients to regions, outside any cluster: global load balancers and Cloud DNS."""
