"""Code that two programs with their own modules and images have in common."""

from pathlib import Path

WORKLOADS = Path(__file__).parents[3] / "workloads"


def test_gate_and_relay_follow_their_files_with_the_same_code():
    gate, relay = (
        (WORKLOADS / name / "internal/config/watch.go").read_text() for name in ("callout", "relay")
    )
    assert gate == relay
