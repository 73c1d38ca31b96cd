"""GKE's cluster autoscaler with custom compute classes."""
