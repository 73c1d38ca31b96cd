"""Monitoring, alerts, dashboards and budgets."""
