"""What Google's metadata server says about the node; a node without one says nothing.

`GCE_METADATA_HOST` moves it, as for Google's own libraries.
"""

import http.client
import os
import urllib.request

SPOT_POD_SECONDS = 15.0
"""What kubelet leaves the pods of a spot node of its notice of 30 s; the other half is for system
pods (docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms, graceful termination)."""

HOOK_SECONDS = 5
"""What the pod's preStop hook takes of it: a third, until load balancers have heard."""

_HOST = "169.254.169.254"
_SECONDS = 1.0


def get(path: str) -> "str | None":
    """Return a value such as `instance/preempted`, or None where nobody says."""
    host = os.environ.get("GCE_METADATA_HOST", _HOST)
    request = urllib.request.Request(
        f"http://{host}/computeMetadata/v1/{path}", headers={"Metadata-Flavor": "Google"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
            return answer.read().decode().strip()
    except (OSError, ValueError, http.client.HTTPException):
        return None


def preempted() -> "bool | None":
    """Say whether this spot node has its notice (compute.googleapis.com, instance/preempted).

    None: nobody says.
    """
    said = get("instance/preempted")
    return None if said is None else said == "TRUE"


def node_labels() -> "dict[str, str]":
    """Return the labels that GKE gave the node; none where they are concealed."""
    text = get("instance/attributes/kube-labels") or ""
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
