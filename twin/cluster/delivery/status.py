"""The status of a RepoSync, as Config Sync writes it."""

from collections.abc import Mapping
from typing import Any

from twin.cluster.base.fields import parts
from twin.cluster.base.reports import timestamp
from twin.wire.kube import JsonObject

_MOST_ERRORS = 10


def status_of(
    obj: JsonObject,
    *,
    revision: str,
    synced: str,
    source_errors: tuple[str, ...] = (),
    sync_errors: tuple[str, ...] = (),
    stalled: str = "",
) -> JsonObject:
    """Return the status of a RepoSync.

    Args:
        obj: The RepoSync with its current status.
        revision: Revision of the source; empty if it cannot be read.
        synced: Last completely applied revision; empty if there is none.
        source_errors: Errors that prevent reading the source or applying any object.
        sync_errors: Errors of the API server.
        stalled: Error in the RepoSync itself.
    """
    spec: Mapping[str, Any] = obj.get("spec") or {}
    kind = str(spec.get("sourceType") or "git")
    place = _place(kind, spec.get(kind) or {}, revision)
    refs = [
        name
        for name, errors in (("SourceError", source_errors), ("SyncError", sync_errors))
        if errors
    ]
    total = len(source_errors) + len(sync_errors)
    known: JsonObject = obj.get("status") or {}
    conditions = [
        _condition(known, "Reconciling", "False", "Sync", "", {}),
        _condition(known, "Stalled", str(bool(stalled)), "Validation", stalled, {}),
        _condition(
            known,
            "Syncing",
            "False",
            "Source" if source_errors else "Sync",
            "Sync Completed" if not total else "",
            {
                "commit": revision,
                "errorSourceRefs": refs,
                "errorSummary": _summary(total),
            },
        ),
    ]
    return {
        "conditions": conditions,
        "lastSyncedCommit": synced,
        "observedGeneration": int(obj["metadata"].get("generation", 1)),
        "source": {
            **place,
            "commit": revision,
            "errorSummary": _summary(len(source_errors)),
            "errors": _errors(source_errors),
        },
        "sync": {
            **place,
            "commit": revision if not source_errors else synced,
            "errorSummary": _summary(len(sync_errors)),
            "errors": _errors(sync_errors),
        },
    }


def _place(kind: str, part: Mapping[str, Any], revision: str) -> JsonObject:
    if kind == "oci":
        return {"ociStatus": {"dir": part.get("dir", ""), "image": part.get("image", "")}}
    return {
        "gitStatus": {
            "branch": part.get("branch", ""),
            "dir": part.get("dir", ""),
            "repo": part.get("repo", ""),
            "revision": revision,
        }
    }


def _summary(count: int) -> JsonObject:
    shown = min(count, _MOST_ERRORS)
    return {
        "errorCountAfterTruncation": shown,
        "totalCount": count,
        "truncated": count > shown,
    }


def _errors(errors: tuple[str, ...]) -> list[JsonObject]:
    return [
        {"code": each.partition(":")[0].removeprefix("KNV"), "errorMessage": each}
        for each in errors[:_MOST_ERRORS]
    ]


def _condition(
    known: JsonObject, kind: str, status: str, reason: str, message: str, more: JsonObject
) -> JsonObject:
    """Return a condition; keep its times while nothing else changes."""
    made: JsonObject = {
        "message": message,
        "reason": reason,
        "status": status,
        "type": kind,
        **more,
    }
    for each in parts(known, "conditions"):
        if each.get("type") != kind:
            continue
        times = {key: each[key] for key in ("lastTransitionTime", "lastUpdateTime") if key in each}
        if all(each.get(key) == value for key, value in made.items()):
            return {**made, **times}
        if each.get("status") == status and "lastTransitionTime" in times:
            return {
                **made,
                "lastTransitionTime": times["lastTransitionTime"],
                "lastUpdateTime": timestamp(),
            }
    return {**made, "lastTransitionTime": timestamp(), "lastUpdateTime": timestamp()}
