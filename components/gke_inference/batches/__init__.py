"""Batches: a bucket for files, the Batch API service, and workers that send requests to models."""
