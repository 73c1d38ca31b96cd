"""Models on Cloud Run, without a cluster."""
