"""Access to a cluster's Services by name, for programs in the cluster."""
