"""Prefill and decode apart: what turns a model server into one of the two roles.

Decode replicas answer requests. In front of each stands llm-d's routing side-car on the pool's
port; it has a long prompt computed by the prefill replica that the picker named and hands the
engine beside it the address of the KV cache. Any replica can still answer a request by itself.
Roles, labels, ports and flags: llm-d-inference-scheduler v0.8.0 (deploy/components, pkg/sidecar).
"""

import json
from dataclasses import dataclass

from gke_inference.base.manifests import HARDENED_CONTAINER, Manifest
from gke_inference.catalogue.rungs import Rung
from gke_inference.catalogue.versions import image
from gke_inference.serving.launcher.spec import PORT

ROLE_LABEL = "llm-d.ai/role"
ROLES = ("decode", "prefill")
ENGINE_PORT = 8200
"""Port of a decoding engine: the side-car has the pool's."""
SIDE_CHANNEL_PORT = 5600
SETTLE_SECONDS = 45
"""How long a decode replica waits before it looks whether it is idle: a request whose prompt is
still computed elsewhere is in nobody's queue here."""
_SIDECAR_USER = 65532


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
    """Returns why a rung cannot take part, as the rest of a sentence, or None."""
    transport = TRANSPORTS.get(rung.accelerator)
    if transport is None:
        known = ", ".join(sorted(TRANSPORTS))
        return f"has no network that KV cache can be moved over; those that have: {known}"
    if transport.topology is not None and rung.topology != transport.topology:
        return f"is tried as {transport.topology} only, got {rung.topology}"
    if rung.is_multi_host:
        return f"spans {rung.hosts} hosts, and a role runs on one"
    return None


def transfer_flag(accelerator: str) -> str:
    """Returns the engine's `--kv-transfer-config`.

    Both roles may send and receive, so that a prefill replica can answer alone; a prompt whose KV
    cannot be read is computed again, because vLLM's default is to fail the request.
    """
    transport = TRANSPORTS[accelerator]
    config: dict[str, str] = {"kv_connector": transport.connector}
    if transport.module is not None:
        config["kv_connector_module_path"] = transport.module
    config["kv_load_failure_policy"] = "recompute"
    config["kv_role"] = "kv_both"
    return f"--kv-transfer-config={json.dumps(config, separators=(',', ':'))}"


def port(role: str | None) -> int:
    """Returns the port an engine listens on."""
    return ENGINE_PORT if role == "decode" else PORT


def environment() -> list[Manifest]:
    """Returns the variables of an engine: where others find its side channel."""
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    return [
        {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": address},
        {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(SIDE_CHANNEL_PORT)},
    ]


def sidecar() -> Manifest:
    """Returns the routing side-car, a native one: it ends after the engine whose answers it passes.

    Its own protection against forged headers reads a pool's selector in the old shape and then
    forbids everything (v0.8.0), so it is off: the picker empties such headers, and the pool is
    closed while no picker is there.
    """
    return {
        "args": [
            f"--port={PORT}",
            f"--vllm-port={ENGINE_PORT}",
            "--kv-connector=nixlv2",
            "--secure-proxy=false",
        ],
        "image": image("routing_sidecar").reference,
        "name": "routing-sidecar",
        "ports": [{"containerPort": PORT, "name": "http"}],
        "resources": {
            "limits": {"memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "256Mi"},
        },
        "restartPolicy": "Always",
        "securityContext": {
            **HARDENED_CONTAINER,
            "runAsGroup": _SIDECAR_USER,
            "runAsNonRoot": True,
            "runAsUser": _SIDECAR_USER,
        },
    }
