"""Job queues: chips that teams share, and the namespaces of their jobs."""
