"""Addresses through which pods reach Google's APIs and their identity."""

from typing import Final

APIS: Final = {
    "private.googleapis.com": "199.36.153.8",
    "restricted.googleapis.com": "199.36.153.4",
    "public addresses": "142.250.0.1",
}
"""An address of each way to Google's APIs
(docs.cloud.google.com/vpc/docs/configure-private-google-access)."""
METADATA_SERVER: Final = ("169.254.169.252", 988)
"""Address and port of GKE's metadata server in a cluster without Dataplane V2
(docs.cloud.google.com/kubernetes-engine/docs/how-to/workload-identity, network policies)."""
METADATA_SERVER_OF_DATAPLANE_V2: Final = ("169.254.169.254", 80)
