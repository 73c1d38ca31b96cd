"""The control plane: its processes, and what GKE installs in a new cluster."""
