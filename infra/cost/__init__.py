"""What a stack costs by hour, month and unit of work."""
