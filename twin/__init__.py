"""The twin: a local stand-in for Google Cloud that the real Pulumi engine drives."""
