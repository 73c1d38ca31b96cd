"""Batches: files of requests that models answer as there is room, by OpenAI's Batch API."""
