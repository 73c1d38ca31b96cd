"""The configuration of a relay."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from gke_inference.base.manifests import Manifest

from .kinds import KINDS, address_of
from .settings import BackendSettings, TargetSettings

_HTTPS = 443


def document(
    backends: Mapping[str, BackendSettings], *, force_usage: bool, fallback: Manifest | None = None
) -> str:
    """Return the configuration of a relay.

    Args:
        backends: Backends, by the name that clients request.
        force_usage: Whether every stream includes its token usage.
        fallback: Fallback settings of a relay that is a replica of a pool.
    """
    found: dict[str, Any] = {
        "backends": {
            name: {
                "context": backend.context,
                "force_usage": force_usage,
                **({} if backend.idle_seconds is None else {"idle_seconds": backend.idle_seconds}),
                "targets": [_target(target, at) for at, target in enumerate(backend.targets)],
                "timeout_seconds": backend.timeout_seconds,
            }
            for name, backend in backends.items()
        }
    }
    if fallback is not None:
        found["fallback"] = fallback
    return json.dumps(found, indent=2, sort_keys=True)


def ports_of(backends: Mapping[str, BackendSettings]) -> list[int]:
    """Return the ports that a relay of some backends calls, sorted."""
    found = {_HTTPS}
    for backend in backends.values():
        for target in backend.targets:
            parts = urlsplit(target.url or "")
            if parts.scheme:
                found.add(parts.port or (_HTTPS if parts.scheme == "https" else 80))
    return sorted(found)


def _target(target: TargetSettings, at: int) -> dict[str, Any]:
    return {
        "auth": _auth(target),
        "model": target.model,
        "name": f"{at}-{target.kind.value}",
        "paths": list(KINDS[target.kind].paths),
        "url": address_of(target),
        "weight": target.weight,
    }


def _auth(target: TargetSettings) -> dict[str, str | None]:
    how = KINDS[target.kind].auth
    if how == "secret":
        return {"kind": "none"} if target.secret is None else {"kind": how, "secret": target.secret}
    if how == "id-token":
        audience = (target.url or "").rstrip("/")
        return {"audience": audience, "kind": how, "service_account": target.service_account}
    return {"kind": how}
