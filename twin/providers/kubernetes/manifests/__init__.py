"""Objects as the provider reads, compares and applies them."""
