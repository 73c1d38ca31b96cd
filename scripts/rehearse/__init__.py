"""`gke-inference rehearse`: a day of a stack in virtual time."""
