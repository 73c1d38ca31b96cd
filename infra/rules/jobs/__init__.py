"""Rules about jobs, and the queues that they wait in."""
