"""Personalized images: uploads of users, training jobs, images of the adapters, and callbacks."""
