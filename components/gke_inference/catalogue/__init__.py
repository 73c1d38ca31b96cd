"""Data about accelerators, machines and prices, free of Pulumi."""
