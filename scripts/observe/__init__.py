"""Dashboards for whoever draws them: Grafana, and the page that the twin's Prometheus serves."""
