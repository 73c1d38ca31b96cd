"""Personalized images: the service for uploads on Cloud Run, and the worker in the cluster."""
