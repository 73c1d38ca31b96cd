"""What Managed Prometheus does in a cluster: a real Prometheus that scrapes what is asked for."""
