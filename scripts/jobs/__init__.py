"""`gke-inference jobs`: the jobs of teams in their queues."""
