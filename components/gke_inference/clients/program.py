"""Configuration of a gate's callout.

The program reads one YAML document (workloads/gateway/callout). It is written as JSON, which is
valid YAML.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gke_inference.clients.certificates import described
from gke_inference.clients.gate_inputs import (
    AnswerCacheArgs,
    ClientGateArgs,
    ClientGuardArgs,
    ClientModelArgs,
)
from gke_inference.clients.people import token_of_people
from gke_inference.clients.settings import (
    ANONYMOUS,
    REPLICAS,
    THRESHOLD,
    TTL_SECONDS,
    TeamSettings,
    TokenIssuer,
)
from gke_inference.settings.fields import DEFAULT_CONTEXT


@dataclass(frozen=True)
class Store:
    """A store, and how the gate connects to it."""

    address: str
    certificates: str | None = None
    """CA certificates of the store, or None if it has no TLS."""

    def settings(self) -> dict[str, Any]:
        """Return the store in the program's format."""
        if self.certificates is None:
            return {"address": self.address}
        return {"address": self.address, "ca": self.certificates, "tls": True}


_LIMITS = ("monthly_usd", "requests_per_minute", "tokens_per_minute", "tokens_per_month")


def document(
    args: ClientGateArgs, secret: str, store: Store | None, answers: Store | None = None
) -> str:
    """Return the configuration that the program reads.

    Args:
        args: The settings, checked.
        secret: `projects/P/secrets/S` of the keys.
        store: The counters; None: each replica counts for itself.
        answers: The answers; None: there is no cache.
    """
    replicas = args.get("replicas", REPLICAS)
    found: dict[str, Any] = {
        "anonymous": args.get("anonymous", False),
        "default_context": args.get("default_context", DEFAULT_CONTEXT),
        "jwt": [_issuer(issuer, args["teams"]) for issuer in args.get("issuers", [])],
        "keys": {"secret": secret},
        "pools": _pools(args["models"]),
        "prices": {name: price.model_dump() for name, price in args.get("prices", {}).items()},
        "region": args["region"],
        "replicas": replicas,
        "teams": {
            name: _team(team, args.get("replaced_models", {}).get(name, []))
            for name, team in args["teams"].items()
        },
    }
    if args.get("anonymous", False):
        found["teams"].setdefault(ANONYMOUS, _team(TeamSettings()))
    if args.get("guards"):
        found["guards"] = {name: _guard(guard) for name, guard in args.get("guards", {}).items()}
    if models := _described(args):
        found["models"] = models
    if "stream_idle_seconds" in args:
        found["stream_idle_seconds"] = args["stream_idle_seconds"]
    if "session_headers" in args:
        found["turns"] = {"session_headers": list(args["session_headers"])}
    if store is not None:
        found["store"] = store.settings()
    if args.get("batches", False):
        found["batches"] = True
    if "certificates" in args:
        found["certificates"] = described(args["certificates"])
    if "people" in args:
        found["jwt"].append(token_of_people(args["people"]))
    cache = args.get("cache")
    if cache is not None and answers is not None:
        found["cache"] = {**_cache(cache, answers), "epoch": _epoch(args)}
    return json.dumps(found, indent=2, sort_keys=True)


def _team(team: TeamSettings, replaced: Iterable[str] = ()) -> dict[str, Any]:
    """Return a team in the program's format, with the models that `when_spent` replaces."""
    limits = {name: getattr(team, name) for name in _LIMITS}
    spent: dict[str, Any] = {}
    if team.when_spent is not None:
        spent = {"model": team.when_spent.model, "replaces": sorted(replaced)}
        if team.when_spent.monthly_usd is not None:
            spent["monthly_usd"] = team.when_spent.monthly_usd
    return {
        **({"when_spent": spent} if spent else {}),
        **{name: limit for name, limit in limits.items() if limit is not None},
        **({"acts_for_teams": True} if team.acts_for_teams else {}),
        **({"cache": True} if team.cached_answers else {}),
        **({"guards": list(team.guardrails)} if team.guardrails else {}),
        "models": ["*"] if team.models is None else list(team.models),
        "objective": team.priority.value,
    }


def _cache(cache: AnswerCacheArgs, answers: Store) -> dict[str, Any]:
    """Return the cache in the program's format."""
    return {
        "embeddings": {"model": cache["embeddings_model"], "url": cache["embeddings_url"]},
        "models": sorted(cache["models"]),
        "store": answers.settings(),
        "threshold": cache.get("threshold", THRESHOLD),
        "ttl_seconds": cache.get("ttl_seconds", TTL_SECONDS),
    }


def _epoch(args: ClientGateArgs) -> str:
    """Return a text that changes when the guards of prompts and answers change."""
    checks = {
        "armor": args.get("armor", []),
        "guards": args.get("guards", {}),
        "models": args.get("guarded_models", {}),
        "teams": {name: list(team.guardrails) for name, team in args["teams"].items()},
    }
    return hashlib.sha256(json.dumps(checks, sort_keys=True).encode()).hexdigest()[:12]


def _guard(guard: ClientGuardArgs) -> dict[str, Any]:
    """Return a guard in the program's format."""
    return {**guard, "phases": list(guard["phases"]), "timeout_ms": guard["timeout_ms"]}


def _issuer(issuer: TokenIssuer, teams: Iterable[str]) -> dict[str, Any]:
    """Return an issuer in the program's format. Claims map to listed teams only."""
    named = issuer.teams or {name: name for name in teams}
    return {**issuer.model_dump(mode="json"), "teams": dict(named)}


def _described(args: ClientGateArgs) -> dict[str, dict[str, Any]]:
    """Return the settings of each model in the program's format."""
    contexts, guarded = args.get("contexts", {}), args.get("guarded_models", {})
    salted = args.get("cache_salt_paths", {})
    return {
        name: {
            **({"cache_salt_paths": list(salted[name])} if salted.get(name) else {}),
            **({"context": contexts[name]} if name in contexts else {}),
            **({"guards": list(guarded[name])} if name in guarded else {}),
        }
        for name in sorted({*contexts, *guarded, *(name for name in salted if salted[name])})
    }


def _pools(models: Mapping[str, ClientModelArgs]) -> dict[str, str]:
    """Return the pool of every name that clients may request.

    Objectives belong to pools, so the same priority has a different name for each model. The
    program derives it from the pool and the priority.
    """
    return {
        name: model["pool_name"]
        for served, model in models.items()
        for name in (served, *model.get("adapters", []))
    }
