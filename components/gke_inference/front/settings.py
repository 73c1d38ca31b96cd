"""Settings of a front, which stacks and components share."""

from typing import Annotated, Final

from pydantic import Field

from gke_inference.catalogue.cloud_run import run_limits

RouterConcurrency = Annotated[int, Field(ge=1, le=run_limits().concurrency)]
"""Requests that one instance of the front's router passes on at a time."""
ROUTER_CONCURRENCY: Final = 200
ROUTER_VCPUS: Final = 1
"""vCPUs of an instance of the front's router."""
ROUTER_GIB: Final = 1
"""Memory of such an instance in GiB: its bodies take at most 160 MiB (`--max-held-bytes`)."""
