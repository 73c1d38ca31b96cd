"""The simulated vLLM server, traffic against it, and replays of workloads."""
