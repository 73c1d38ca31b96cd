"""What leads clients to regions, outside of every cluster: global load balancers and Cloud DNS."""
