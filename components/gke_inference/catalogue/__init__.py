"""What is known about accelerators, machines and prices, free of Pulumi."""
