"""Inputs of backends, their validation, and the configuration of their relay."""

import json
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, cast
from urllib.parse import urlsplit

import pulumi

from gke_inference.base.inputs import one_of, whole
from gke_inference.base.manifests import Manifest

from .kinds import KINDS, address_of, wrong_field

MOST_SECONDS = 3600
_HTTPS = 443
_CONTEXT = 131_072


class BackendTargetArgs(TypedDict):
    """One target of a backend."""

    kind: str
    """`anthropic`, `cloud-run`, `gemini`, `http`, `openai` or `vertex`."""
    model: str
    """Name of the model at the service."""
    location: NotRequired[str]
    """For `vertex`: location, such as `us-central1` or `global`."""
    project: NotRequired[str]
    """For `vertex`: project. Required."""
    secret: NotRequired[str]
    """`projects/P/secrets/S` with the API key, for `anthropic`, `gemini` and `openai`, and for
    `http` if it requires one."""
    service_account: NotRequired[str]
    """For `cloud-run`: email of the service account that calls it. Required."""
    service: NotRequired[str]
    """For `cloud-run`: `projects/P/locations/L/services/S`."""
    url: NotRequired[str]
    """URL of the `cloud-run` service, or base URL of the `http` API, such as
    `https://llm.example.com/v1`."""
    weight: NotRequired[int]
    """Share of the requests, relative to the other targets, 1 (default) to 1000."""


class BackendArgs(TypedDict):
    """A model that runs outside the platform."""

    targets: list[BackendTargetArgs]
    """Its targets. If one has no capacity or cannot be reached, another is called."""
    context: NotRequired[int]
    """Assumed maximum length of a prompt with its answer, in tokens. A fallback reserves the cost
    of what a prompt leaves of it for a request without a limit. Default: 131072."""
    timeout_seconds: NotRequired[int]
    """Maximum duration of a request in seconds, streams included: 1 to 3600. Default: 120."""


class RelayCallersArgs(TypedDict):
    """Allowed ingress to a relay, as network policies."""

    metrics_namespace: str
    """Namespace of the Managed Prometheus collectors."""
    proxies_cidr: str
    """Range of the load balancer's proxies."""


def checked(where: str, backend: BackendArgs) -> None:
    """Validate a backend.

    Raises:
        pulumi.InputPropertyError: A field is missing, wrong, or of another kind.
    """
    whole(backend, "timeout_seconds", 120, least=1, most=MOST_SECONDS, where=where)
    whole(backend, "context", _CONTEXT, least=1, most=2**30, where=where)
    if not backend["targets"]:
        raise pulumi.InputPropertyError(f"{where}.targets", "must have one or more, got none")
    for at, target in enumerate(backend["targets"]):
        path = f"{where}.targets[{at}]"
        kind = one_of(target, "kind", tuple(sorted(KINDS)))
        whole(target, "weight", 1, least=1, most=1000, where=path)
        found = wrong_field(kind, cast("Mapping[str, object]", target))
        if found is not None:
            raise pulumi.InputPropertyError(f"{path}.{found[0]}", found[1])
        for field, of in (("project", "vertex"), ("service_account", "cloud-run")):
            if kind == of and target.get(field) is None:
                raise pulumi.InputPropertyError(f"{path}.{field}", f"is required of {of}")


def document(
    backends: Mapping[str, BackendArgs], *, force_usage: bool, fallback: Manifest | None = None
) -> str:
    """Return the configuration of a relay.

    Args:
        backends: Validated backends, by the name that clients request.
        force_usage: Whether every stream includes its token usage.
        fallback: Fallback settings of a relay that is a replica of a pool.
    """
    found: dict[str, Any] = {
        "backends": {
            name: {
                "context": whole(backend, "context", _CONTEXT, least=1, most=2**30),
                "force_usage": force_usage,
                "targets": [_target(target, at) for at, target in enumerate(backend["targets"])],
                "timeout_seconds": timeout_of(backend),
            }
            for name, backend in backends.items()
        }
    }
    if fallback is not None:
        found["fallback"] = fallback
    return json.dumps(found, indent=2, sort_keys=True)


def timeout_of(backend: BackendArgs) -> int:
    """Return the longest a request of a backend may take, in seconds."""
    return whole(backend, "timeout_seconds", 120, least=1, most=MOST_SECONDS)


def ports_of(backends: Mapping[str, BackendArgs]) -> list[int]:
    """Return the ports that a relay of some backends calls, sorted."""
    found = {_HTTPS}
    for backend in backends.values():
        for target in backend["targets"]:
            parts = urlsplit(str(target.get("url") or ""))
            if parts.scheme:
                found.add(parts.port or (_HTTPS if parts.scheme == "https" else 80))
    return sorted(found)


def _target(target: BackendTargetArgs, at: int) -> dict[str, Any]:
    kind = KINDS[target["kind"]]
    return {
        "auth": _auth(target),
        "model": target["model"],
        "name": f"{at}-{target['kind']}",
        "paths": list(kind.paths),
        "url": address_of(target["kind"], cast("Mapping[str, object]", target)),
        "weight": whole(target, "weight", 1, least=1, most=1000),
    }


def _auth(target: BackendTargetArgs) -> dict[str, str]:
    how = KINDS[target["kind"]].auth
    if how == "secret":
        secret = target.get("secret")
        return {"kind": "none"} if secret is None else {"kind": how, "secret": secret}
    if how == "id-token":
        audience = str(target.get("url")).rstrip("/")
        account = str(target.get("service_account"))
        return {"audience": audience, "kind": how, "service_account": account}
    return {"kind": how}
