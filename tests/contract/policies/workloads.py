"""What policies of workloads are tried on."""

from typing import Any


def workload(pod: dict[str, Any], *, namespace: str = "models") -> dict[str, Any]:
    """Return a Deployment's properties around the spec of its pods."""
    return {"metadata": {"namespace": namespace}, "spec": {"template": {"spec": pod}}}
