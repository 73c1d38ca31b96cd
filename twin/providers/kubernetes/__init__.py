"""The twin's kubernetes resource provider: like Pulumi's own, for any real API server."""
