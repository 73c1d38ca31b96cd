"""A pod's status, derived from its containers."""

from twin.cluster.agent.container import Container
from twin.cluster.base.reports import timestamp
from twin.wire.kube import JsonObject


def phase(containers: list[Container]) -> str:
    """Return the pod's phase."""
    if any(container.evicted for container in containers):
        return "Failed"
    if containers and all(container.finished for container in containers):
        main = [container for container in containers if not container.is_sidecar]
        codes = [container.state["terminated"]["exitCode"] for container in main]
        return "Failed" if any(codes) else "Succeeded"
    begun = all(container.has_started for container in containers)
    return "Running" if begun and containers else "Pending"


def _condition(kind: str, *, holds: bool, reason: str = "", message: str = "") -> JsonObject:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
    }


def conditions(pod: JsonObject, containers: list[Container], now: str) -> list[JsonObject]:
    """Return the pod's conditions; a transition time changes only with its status."""
    unready = [container.name for container in containers if not container.ready]
    beside = [each.name for each in containers if each.is_sidecar and not each.started]
    has_begun = any(each.has_started for each in containers if not each.is_sidecar)
    initial = [] if has_begun else beside
    done = phase(containers) == "Succeeded"
    reason = "PodCompleted" if done else "ContainersNotReady" if unready else ""
    message = (
        "" if done or not unready else f"containers with unready status: [{' '.join(unready)}]"
    )
    gates = {gate["conditionType"] for gate in pod["spec"].get("readinessGates", [])}
    known = {entry["type"]: entry for entry in pod.get("status", {}).get("conditions", [])}
    gated = all(known.get(gate, {}).get("status") == "True" for gate in gates)
    begun = any(container.running_since is not None for container in containers)
    out = [
        _condition("PodReadyToStartContainers", holds=begun),
        _condition(
            "Initialized",
            holds=not initial,
            reason="ContainersNotInitialized" if initial else "",
            message=f"containers with incomplete status: [{' '.join(initial)}]" if initial else "",
        ),
        _condition("Ready", holds=not unready and gated, reason=reason, message=message),
        _condition("ContainersReady", holds=not unready, reason=reason, message=message),
    ]
    for entry in out:
        before = known.get(entry["type"], {})
        same = before.get("status") == entry["status"]
        entry["lastTransitionTime"] = before.get("lastTransitionTime", now) if same else now
    return out


def pod_status(pod: JsonObject, containers: list[Container], started: float) -> JsonObject:
    """Return the complete status to patch.

    The address is the one that the processes are bound to. KWOK may assign a second address when
    two changes of a pod arrive at once, and it must not replace the bound one.
    """
    began = timestamp(started)
    inits = {container["name"] for container in pod["spec"].get("initContainers", [])}
    known = {container.name: container.status() for container in containers}
    address: str = pod["status"]["podIP"]
    initial: list[JsonObject] = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": container["image"],
            "restartCount": 0,
            **_initial_state(container, began),
            **known.get(container["name"], {}),
        }
        for container in pod["spec"].get("initContainers", [])
    ]
    out: JsonObject = {
        "phase": phase(containers),
        "podIP": address,
        "podIPs": [{"ip": address}, {"$patch": "replace"}],
        "startTime": began,
        "conditions": conditions(pod, containers, timestamp()),
        "containerStatuses": [entry for name, entry in known.items() if name not in inits],
    }
    if initial:
        out["initContainerStatuses"] = initial
    evicted = next((each.evicted for each in containers if each.evicted), "")
    return {**out, "reason": "Evicted", "message": evicted} if evicted else out


def waiting(pod: JsonObject, reason: str, message: str, image: str) -> JsonObject:
    """Return the status of a pod whose containers cannot be created.

    If `image` is an init container's, only that waits for `reason`, and the others wait for it.
    """
    init: list[JsonObject] = pod["spec"].get("initContainers", [])
    first = [container for container in init if container["image"] == image]
    if not first:
        return {"containerStatuses": [_waits(each, reason, message) for each in _main(pod)]}
    return {
        "containerStatuses": [_waits(each, "PodInitializing") for each in _main(pod)],
        "initContainerStatuses": [
            _waits(each, reason, message) if each in first else _waits(each, "PodInitializing")
            for each in init
        ],
    }


def _main(pod: JsonObject) -> list[JsonObject]:
    return pod["spec"]["containers"]


def _waits(container: JsonObject, reason: str, message: str = "") -> JsonObject:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"waiting": {"reason": reason, **({"message": message} if message else {})}},
    }


def last_status(pod: JsonObject, containers: list[Container], started: float) -> JsonObject:
    """Return the status of a pod that has ended: a Job needs its phase before the pod is gone."""
    return pod_status(pod, containers, started) if containers else {"phase": "Failed"}


def _initial_state(container: JsonObject, began: str) -> JsonObject:
    """Return the state of an init container: ended, or running if `restartPolicy` is `Always`."""
    if container.get("restartPolicy") == "Always":
        return {"ready": True, "started": True, "state": {"running": {"startedAt": began}}}
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": began, "finishedAt": began}
    return {"ready": True, "started": False, "state": {"terminated": ended}}


def plain(condition: JsonObject) -> JsonObject:
    """Return a condition without its time, to compare it with another."""
    return {key: value for key, value in condition.items() if key != "lastTransitionTime"}


def is_deleted(pod: JsonObject) -> bool:
    """Return whether a pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]
