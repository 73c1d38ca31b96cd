"""Rules about the services between clients and models."""
