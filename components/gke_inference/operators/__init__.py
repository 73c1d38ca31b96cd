"""Controllers that serving needs in a cluster: groups of hosts, external metrics."""
