"""Headers of responses that no client gets: they name software, or the load of one replica.

The list is data/response_headers.yaml, with sources. Routes remove them, and so does the client
gate, which gets the list as an argument: in Envoy a route's filter acts before extensions and
pickers, and the picker adds a header.
"""

from functools import cache
from pathlib import Path

from gke_inference.catalogue.data_file import read_table

MOST_IN_A_FILTER = 16
"""Most names that a filter of an HTTPRoute removes (Gateway API, HTTPHeaderFilter.remove)."""

_FILE = Path(__file__).parent / "data" / "response_headers.yaml"


@cache
def hidden_headers() -> tuple[str, ...]:
    """Return the names in lowercase, sorted."""
    return tuple(sorted(read_table(_FILE)["headers"]))


def hidden_headers_flag() -> str:
    """Return the argument that tells the list to the client gate."""
    return f"--remove-response-headers={','.join(hidden_headers())}"
