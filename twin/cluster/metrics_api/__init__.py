"""The metrics APIs that autoscalers ask."""
