"""Configuration of a gate's callout.

The program reads one YAML document (workloads/gateway/callout). It is written as JSON, which is
valid YAML.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from gke_inference.base.inputs import whole

from .certificates import described
from .people import token_of_people
from .settings import (
    A_DAY,
    ANONYMOUS,
    DEFAULT_CONTEXT,
    LARGEST_CONTEXT,
    THRESHOLD,
    AnswerCacheArgs,
    ClientGateArgs,
    ClientGuardArgs,
    ClientModelArgs,
    ClientTeamArgs,
    TokenIssuerArgs,
)
from .store import Store


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
    replicas = whole(args, "replicas", 2, least=1, most=20)
    found: dict[str, Any] = {
        "anonymous": args.get("anonymous", False),
        "default_context": whole(
            args, "default_context", DEFAULT_CONTEXT, least=1, most=LARGEST_CONTEXT
        ),
        "jwt": [_issuer(issuer, args["teams"]) for issuer in args.get("issuers", [])],
        "keys": {"secret": secret},
        "pools": _pools(args["models"]),
        "prices": {name: dict(price) for name, price in args.get("prices", {}).items()},
        "region": args["region"],
        "replicas": replicas,
        "teams": {name: _team(team) for name, team in args["teams"].items()},
    }
    if args.get("anonymous", False):
        found["teams"].setdefault(ANONYMOUS, _team({}))
    if args.get("guards"):
        found["guards"] = {name: _guard(guard) for name, guard in args.get("guards", {}).items()}
    if models := _described(args):
        found["models"] = models
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


def _team(team: ClientTeamArgs) -> dict[str, Any]:
    """Return a team in the program's format."""
    others = ("cached_answers", "models", "priority")
    limits = {name: value for name, value in team.items() if name not in others}
    return {
        **{name: value for name, value in limits.items() if value is not None},
        **({"cache": True} if team.get("cached_answers", False) else {}),
        "models": list(team.get("models", ["*"])),
        "objective": team.get("priority", "interactive"),
    }


def _cache(cache: AnswerCacheArgs, answers: Store) -> dict[str, Any]:
    """Return the cache in the program's format."""
    return {
        "embeddings": {"model": cache["embeddings_model"], "url": cache["embeddings_url"]},
        "models": sorted(cache["models"]),
        "store": answers.settings(),
        "threshold": cache.get("threshold", THRESHOLD),
        "ttl_seconds": cache.get("ttl_seconds", A_DAY),
    }


def _epoch(args: ClientGateArgs) -> str:
    """Return a text that changes when the guards of prompts and answers change."""
    checks = {
        "armor": args.get("armor", []),
        "guards": args.get("guards", {}),
        "models": args.get("guarded_models", {}),
        "teams": {name: team.get("guards", []) for name, team in args["teams"].items()},
    }
    return hashlib.sha256(json.dumps(checks, sort_keys=True).encode()).hexdigest()[:12]


def _guard(guard: ClientGuardArgs) -> dict[str, Any]:
    """Return a guard in the program's format."""
    return {**guard, "phases": list(guard["phases"]), "timeout_ms": int(guard["timeout_ms"])}


def _issuer(issuer: TokenIssuerArgs, teams: Iterable[str]) -> dict[str, Any]:
    """Return an issuer in the program's format. Claims map to listed teams only."""
    return {
        "audiences": list(issuer["audiences"]),
        "claim": issuer["claim"],
        "header": issuer.get("header", "authorization"),
        "issuer": issuer["issuer"],
        "jwks_uri": issuer["jwks_uri"],
        "teams": dict(issuer.get("teams") or {name: name for name in teams}),
    }


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
