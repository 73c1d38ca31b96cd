"""The namespace of the model servers, and network access to it."""
