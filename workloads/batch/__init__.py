"""Batches: files of requests that models answer with spare capacity, with OpenAI's Batch API."""
