"""Rules about job queues."""
