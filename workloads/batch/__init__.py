"""Batches: files of requests that models answer with spare capacity, by OpenAI's Batch API."""
