"""What a model is meant to serve, and the rules it must keep; free of Pulumi."""
