"""Which hardware moves KV cache between engines, for disaggregated prefill and decode."""

from dataclasses import dataclass

from gke_inference.catalogue.rungs import Rung


@dataclass(frozen=True)
class Transport:
    """How KV cache gets from engine to engine on an accelerator."""

    connector: str
    module: str | None = None
    topology: str | None = None
    """Only this one is known to work."""


TRANSPORTS = {
    "nvidia-b200": Transport("NixlConnector"),
    "nvidia-h200-141gb": Transport("NixlConnector"),
    "tpu-v6e": Transport("TPUConnector", "tpu_inference.distributed.tpu_connector", topology="2x4"),
}
"""Accelerators whose machines have a network for it: RDMA (A3 Ultra, A4), or the one TPU slice that
accelerated-platforms runs it on. TCPX and TCPXO of the H100 machines are not for NIXL."""


def unfit(rung: Rung) -> str | None:
    """Return why a rung cannot take part, as the rest of a sentence, or None."""
    transport = TRANSPORTS.get(rung.accelerator)
    if transport is None:
        known = ", ".join(sorted(TRANSPORTS))
        return f"has no network that KV cache can be moved over; those that have: {known}"
    if transport.topology is not None and rung.topology != transport.topology:
        return f"is tried as {transport.topology} only, got {rung.topology}"
    if rung.is_multi_host:
        return f"spans {rung.hosts} hosts, and a role runs on one"
    return None
