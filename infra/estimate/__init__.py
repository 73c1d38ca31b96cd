"""What a stack costs, and the most quota that it needs."""
