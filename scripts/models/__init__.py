"""`gke-inference models`: the weights of a stack's models in the buckets of its regions."""
