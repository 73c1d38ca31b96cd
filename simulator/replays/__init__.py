"""Replays of workloads on simulated replicas, faster than the clock and without a gateway."""
