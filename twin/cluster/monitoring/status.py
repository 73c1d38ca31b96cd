"""The status that Managed Prometheus' operator writes on its objects. Pure.

GoogleCloudPlatform/prometheus-engine, pkg/operator/apis/monitoring/v1/monitoring_types.go.
"""

from twin.cluster.base.fields import part, parts
from twin.wire.kube import JsonObject

_TYPE = "ConfigurationCreateSuccess"


def status_of(obj: JsonObject, problem: str | None, now: str) -> JsonObject | None:
    """Return the new status of an object; None where it stays as it is.

    Args:
        obj: as the API server has it.
        problem: why no configuration could be made of it; None where one was.
        now: the time, as Kubernetes writes it.
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
