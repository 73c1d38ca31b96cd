"""The twin's kubernetes resource provider: what Pulumi's own does, against any real API server."""
