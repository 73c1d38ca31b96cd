"""Resource options of a stack: providers, field managers and protection."""
