"""`gke-inference clients`: the keys of the teams that call a stack's models, and what they used."""
