"""Model servers: from one intent to Deployments, groups of hosts and autoscalers."""
