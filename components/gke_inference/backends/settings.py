"""Inputs of backends, their checks, and the configuration of the relay that they become."""

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


class BackendTargetArgs(TypedDict):
    """One place where a backend runs."""

    kind: str
    """`anthropic`, `cloud-run`, `gemini`, `http`, `openai` or `vertex`."""
    model: str
    """Name of the model there."""
    location: NotRequired[str]
    """Location of `vertex`, such as `us-central1` or `global`."""
    project: NotRequired[str]
    """Project of `vertex`; required of it."""
    secret: NotRequired[str]
    """`projects/P/secrets/S` with the API key: of `anthropic`, `gemini` and `openai`, and of `http`
    where it asks for one."""
    service_account: NotRequired[str]
    """Address of the service account that calls `cloud-run`; required of it."""
    service: NotRequired[str]
    """`projects/P/locations/L/services/S` of `cloud-run`."""
    url: NotRequired[str]
    """Address of the service of `cloud-run`, or of the API of `http`, such as
    `https://llm.example.com/v1`."""
    weight: NotRequired[int]
    """Share of the requests among several targets, 1 (default) to 1000."""


class BackendArgs(TypedDict):
    """A model that runs elsewhere."""

    targets: list[BackendTargetArgs]
    """Where it runs; another one is called where one has no room or cannot be reached."""
    timeout_seconds: NotRequired[int]
    """Longest a request may take, streams included: 1 to 3600. Default 120."""


class RelayCallersArgs(TypedDict):
    """Who may reach a relay, as network policies."""

    metrics_namespace: str
    """Namespace of Managed Prometheus' collectors."""
    proxies_cidr: str
    """Range of the load balancer's proxies."""


def checked(where: str, backend: BackendArgs) -> None:
    """Check a backend.

    Raises:
        pulumi.InputPropertyError: A field is missing, wrong, or of another kind.
    """
    whole(backend, "timeout_seconds", 120, least=1, most=MOST_SECONDS, where=where)
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
    """Returns the configuration of a relay.

    Args:
        backends: What clients ask for, by name; checked.
        force_usage: Whether the usage of every stream stays in it.
        fallback: Of a relay that is a replica of a pool.
    """
    found: dict[str, Any] = {
        "backends": {
            name: {
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
