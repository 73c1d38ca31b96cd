"""Hardware that can transfer KV cache between engines, for disaggregated serving."""

from dataclasses import dataclass

from gke_inference.catalogue.accelerators import rdma_accelerators
from gke_inference.catalogue.rungs import Rung


@dataclass(frozen=True)
class Transport:
    """How KV cache is transferred between engines on an accelerator."""

    connector: str
    needs_rdma: bool = False
    """Whether its rungs say how they reach each other: `rdma`, or `tcp` on purpose."""
    module: str | None = None
    topology: str | None = None
    """The only topology known to work."""


TRANSPORTS = {
    **dict.fromkeys(rdma_accelerators(), Transport("NixlConnector", needs_rdma=True)),
    "tpu-v6e": Transport(
        "TPUConnector", module="tpu_inference.distributed.tpu_connector", topology="2x4"
    ),
}
"""Accelerators whose machines have a suitable network: RDMA (A3 Ultra, A4), or the one TPU slice
that accelerated-platforms runs it on. NIXL does not support TCPX and TCPXO of the H100 machines."""


def unfit(rung: Rung, *, may_span: bool = False) -> str | None:
    """Return why a rung cannot be used, as the end of a sentence, or None.

    Args:
        rung: The rung.
        may_span: Whether a role may span hosts, each of which transfers its own KV cache. It can
            with expert parallelism; pipeline stages each have a part of every layer's cache.
    """
    transport = TRANSPORTS.get(rung.accelerator)
    if transport is None:
        known = ", ".join(sorted(TRANSPORTS))
        return f"has no network that KV cache can be moved over; those that have: {known}"
    if transport.topology is not None and rung.topology != transport.topology:
        return f"is tried as {transport.topology} only, got {rung.topology}"
    if transport.needs_rdma and rung.network is None:
        return "needs network: rdma, or tcp where slow transfers are meant"
    if rung.is_multi_host and not may_span:
        return f"spans {rung.hosts} hosts, and a role runs on one unless it has experts"
    return None
