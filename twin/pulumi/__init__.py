"""How the Pulumi CLI runs on the twin: its environment, its language host and its providers."""
