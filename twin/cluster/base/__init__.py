"""Shared code of all controllers of a cluster: context, watches, object fields."""
