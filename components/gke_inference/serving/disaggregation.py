"""Disaggregated serving: configures a model server for the prefill or the decode role.

Decode replicas answer requests. In each of them, llm-d's routing sidecar listens on the pool's
port. It sends a long prompt to the prefill replica that the picker chose, and passes the address of
the KV cache to its own engine. Any replica can also answer a request on its own. Roles, labels,
ports and flags: llm-d-inference-scheduler v0.8.0 (deploy/components, pkg/sidecar).
"""

import json

from gke_inference.base.manifests import HARDENED_CONTAINER, Manifest
from gke_inference.catalogue.versions import image
from gke_inference.intent.kv_transport import TRANSPORTS
from gke_inference.serving.launcher.spec import PORT

ROLE_LABEL = "llm-d.ai/role"
ENGINE_PORT = 8200
"""Port of a decoding engine. The sidecar listens on the pool's port."""
SIDE_CHANNEL_PORT = 5600
SETTLE_SECONDS = 45
"""How long a decode replica waits before it checks whether it is idle: a request whose prompt is
still being computed on a prefill replica is not in any queue here."""
_SIDECAR_USER = 65532


def transfer_flag(accelerator: str) -> str:
    """Return the engine's `--kv-transfer-config`.

    Both roles can send and receive, so that a prefill replica can answer alone. If the KV cache of
    a prompt cannot be read, the prompt is computed again; vLLM's default is to fail the request.
    """
    transport = TRANSPORTS[accelerator]
    config: dict[str, str] = {"kv_connector": transport.connector}
    if transport.module is not None:
        config["kv_connector_module_path"] = transport.module
    config["kv_load_failure_policy"] = "recompute"
    config["kv_role"] = "kv_both"
    return f"--kv-transfer-config={json.dumps(config, separators=(',', ':'))}"


def port(role: str | None) -> int:
    """Return the port that an engine listens on."""
    return ENGINE_PORT if role == "decode" else PORT


def environment() -> list[Manifest]:
    """Return the engine's environment variables, with the address of its side channel."""
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    return [
        {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": address},
        {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(SIDE_CHANNEL_PORT)},
    ]


def sidecar() -> Manifest:
    """Return the routing sidecar, a native one: it stops after the engine whose answers it relays.

    Its own protection against forged headers expects the old form of a pool's selector and then
    rejects everything (v0.8.0), so it is off. Instead, the picker clears such headers, and the pool
    rejects requests while no picker is available.
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
