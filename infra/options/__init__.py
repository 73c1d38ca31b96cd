"""What the resources of a stack are registered with: providers, owners of fields, protection."""
