"""The cluster, its network and the identities of its workloads."""
