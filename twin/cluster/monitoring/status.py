"""The status that the operator of Managed Prometheus writes. Pure.

GoogleCloudPlatform/prometheus-engine, pkg/operator/apis/monitoring/v1/monitoring_types.go.
"""

from twin.cluster.base.fields import part, parts
from twin.wire.kube import JsonObject

_TYPE = "ConfigurationCreateSuccess"


def status_of(obj: JsonObject, problem: str | None, now: str) -> JsonObject | None:
    """Return the new status of an object; None if it is unchanged.

    Args:
        obj: object from the API server.
        problem: reason why it has no configuration; None if it has one.
        now: current time in Kubernetes format.
    """
    status, generation = part(obj, "status"), obj["metadata"].get("generation", 1)
    word = "True" if problem is None else "False"
    held: list[JsonObject] = [c for c in parts(status, "conditions") if c["type"] == _TYPE]
    old: JsonObject = held[0] if held else {}
    is_same = old.get("status") == word and old.get("message", "") == (problem or "")
    if is_same and status.get("observedGeneration") == generation:
        return None
    since = old.get("lastTransitionTime") if old.get("status") == word else None
    condition: JsonObject = {
        "type": _TYPE,
        "status": word,
        "lastUpdateTime": now,
        "lastTransitionTime": since or now,
    }
    if problem is not None:
        condition |= {"reason": "ScrapeConfigError", "message": problem}
    return {"observedGeneration": generation, "conditions": [condition]}
