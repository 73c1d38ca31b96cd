"""`gke-inference clients`: the keys and the usage of the teams that call a stack's models."""
