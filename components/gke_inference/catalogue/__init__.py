"""Facts about accelerators, engines, prices, quotas and versions; free of Pulumi."""
