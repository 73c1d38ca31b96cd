"""Queues: chips that the jobs of several teams share, and the namespaces of those jobs."""
