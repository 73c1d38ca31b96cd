"""The control plane: its processes, and the objects that GKE installs in a new cluster."""
