"""The cluster, its network and its workload identities."""
