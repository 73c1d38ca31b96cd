"""The metrics APIs for autoscalers."""
