"""Batches: a bucket of files, the service of OpenAI's Batch API, and workers that ask models."""
