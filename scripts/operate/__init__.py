"""Commands that run the platform: up, status, ask, logs, down and what they need."""
