"""The engine model: scheduler, KV cache and step times of a vLLM server."""

from pathlib import Path

DATA = Path(__file__).with_name("data")
"""Recorded facts: vLLM's metrics and published fits."""

PREFIX = "GKE_INFERENCE_SIM_"
"""Of the variables that tell an engine its surroundings."""
