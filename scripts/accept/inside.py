"""The insides of engine pods: whether user, mounts and variables are those of the specification.

This runs programs in the pods (`kubectl exec`, through testinfra), so a user has to ask for it.
"""

import importlib
import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from infra.plan import ServedModel
from scripts.accept.deployed import Cluster, Deployed, Object, Unreachable, seen
from scripts.accept.placement import ready_since, replicas
from scripts.accept.row import Row, Subject
from twin.toolchain import ToolError, tool
from twin.wire.kube import Kube

Host = Any
"""A host of testinfra, which has no types."""
_PROMISE: Final = "user, mounts and variables of its specification"


def insides(deployed: Deployed) -> Iterator[Row]:
    """Yield whether one ready pod of each model is inside as its specification says."""
    for region, cluster in deployed.clusters.items():
        for served in deployed.plan.regions[region].served:
            subject = _subject(served)
            yield seen(subject, lambda s=subject, c=cluster, m=served: _look(s, c, m))


def unasked(deployed: Deployed) -> Iterator[Row]:
    """Yield the rows of a run that may not look."""
    for region in deployed.clusters:
        for served in deployed.plan.regions[region].served:
            yield _subject(served).skipped("needs --inside")


def _subject(served: ServedModel) -> Subject:
    return Subject("pod", f"of {served.name} in {served.region}", _PROMISE)


def _look(subject: Subject, cluster: Cluster, served: ServedModel) -> Row:
    pod = next((pod for pod in replicas(cluster, served) if ready_since(pod)), None)
    if pod is None:
        return subject.not_met("no ready pod")
    container = pod["spec"]["containers"][0]
    with cluster.inside(pod, container["name"]) as host:
        wrong = list(_differences(host, pod["spec"], container))
    found = "; ".join(wrong) if wrong else "as specified"
    return subject.judged(f"{pod['metadata']['name']}: {found}", is_met=not wrong)


def _differences(host: Host, spec: Object, container: Object) -> Iterator[str]:
    contexts: list[Object] = [container.get("securityContext") or {}]
    contexts.append(spec.get("securityContext") or {})
    user = next((each["runAsUser"] for each in contexts if "runAsUser" in each), None)
    found = host.user().uid
    if user is not None and found != user:
        yield f"user {found} instead of {user}"
    yield from _of_mounts(host, container)
    variables: dict[str, str] = host.environment()
    given: list[Object] = container.get("env") or []
    for each in given:
        value = each.get("value")
        # the kubelet replaces `$(NAME)` and `$$`
        if value is not None and "$" not in value and variables.get(each["name"]) != value:
            yield f"variable {each['name']} has another value"


def _of_mounts(host: Host, container: Object) -> Iterator[str]:
    listed: list[Any] = host.mount_point.get_mountpoints()
    mounts: dict[str, list[str]] = {str(each.path): each.options for each in listed}
    wanted: list[Object] = container.get("volumeMounts") or []
    for mount in wanted:
        path = str(mount["mountPath"]).rstrip("/")
        # /var/run is a link in most images
        options = mounts.get(path) or mounts.get(host.check_output("readlink -f %s", path))
        if options is None:
            yield f"nothing is mounted at {path}"
        elif mount.get("readOnly") and "ro" not in options:
            yield f"{path} can be written"


@contextmanager
def opened(kube: Kube, pod: Object, container: str) -> Generator[Host]:
    """Yield a container of a pod.

    Raises:
        Unreachable: There is no kubectl, or the cluster or the pod refuses.
    """
    testinfra: Any = importlib.import_module("testinfra")  # takes a second
    try:
        folder = str(tool("kubectl").parent)
    except ToolError as error:
        raise Unreachable(str(error)) from None
    if folder not in os.environ["PATH"].split(os.pathsep):  # testinfra calls it by name
        os.environ["PATH"] = folder + os.pathsep + os.environ["PATH"]
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    with tempfile.TemporaryDirectory() as private:  # nobody else may read the token
        file = kube.kubeconfig
        if not isinstance(file, Path):
            file = Path(private, "kubeconfig")
            file.write_text(yaml.safe_dump(kube.kubeconfig), encoding="utf-8")
        place = f"namespace={namespace}&container={container}&kubeconfig={file}"
        host = testinfra.get_host(f"kubectl://{name}?{place}")
        tried = host.run("true")
        if tried.rc:
            said = tried.stderr.strip().splitlines() or [f"exit code {tried.rc}"]
            raise Unreachable(f"kubectl exec: {said[-1]}")
        try:
            yield host
        except (AssertionError, RuntimeError) as error:  # what testinfra raises
            raise Unreachable(f"the container lacks a program to look with: {error}") from None
