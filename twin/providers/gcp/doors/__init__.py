"""The way of pods to the emulators: each request is checked against the grants to its caller."""
