"""Prerequisites of a stack in a Google Cloud project before its first `up`; read-only checks."""
