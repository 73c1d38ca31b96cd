"""The Pulumi CLI on the twin: its environment, its language host and its providers."""
