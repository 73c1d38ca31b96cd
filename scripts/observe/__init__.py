"""Observability: dashboards for Grafana and as a page, and the gateways' access logs."""
