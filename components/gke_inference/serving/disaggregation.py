"""Prefill and decode apart: what turns a model server into one of the two roles.

Decode replicas answer requests. In front of each stands llm-d's routing side-car on the pool's
port; it has a long prompt computed by the prefill replica that the picker named and hands the
engine beside it the address of the KV cache. Any replica can still answer a request by itself.
Roles, labels, ports and flags: llm-d-inference-scheduler v0.8.0 (deploy/components, pkg/sidecar).
"""

import json

from gke_inference.base.manifests import HARDENED_CONTAINER, Manifest
from gke_inference.catalogue.versions import image
from gke_inference.intent.kv_transport import TRANSPORTS
from gke_inference.serving.launcher.spec import PORT

ROLE_LABEL = "llm-d.ai/role"
ENGINE_PORT = 8200
"""Port of a decoding engine: the side-car has the pool's."""
SIDE_CHANNEL_PORT = 5600
SETTLE_SECONDS = 45
"""How long a decode replica waits before it looks whether it is idle: a request whose prompt is
still computed elsewhere is in nobody's queue here."""
_SIDECAR_USER = 65532


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
