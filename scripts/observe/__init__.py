"""What observes the twin: dashboards for Grafana and a page, and the gateways' access logs."""
