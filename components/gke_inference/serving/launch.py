"""How a pod starts its engine: the launcher's files and its spec in a ConfigMap, and its command.

The launcher comes with the platform and not with the image, so that both always agree and an
image of upstream serves as it is; our own images hold the same files at the same place. The whole
command line of the engine stands in the pod, where people and checks look for it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gke_inference.base.manifests import Manifest, fingerprint, labels_for, manifest
from gke_inference.catalogue.engines import engine
from gke_inference.serving.launcher.commands import arguments, program
from gke_inference.serving.launcher.node import ACCESS, NAME_VARIABLE
from gke_inference.serving.launcher.spec import Serving, Spec

HOME = "/opt/gke-inference"
FOLDER = f"{HOME}/engine"
SPEC = f"{FOLDER}/spec.json"
HEALTH_PORT = 8090
"""Of the launcher; the second launcher of a pod has the next one."""

ANNOTATION = "gke-inference/engine"
"""On pods: what is in the ConfigMap, so that they restart when it changes."""

_VOLUME = "launcher"
_ACCESS_VOLUME = "node-reader"
_TOKEN_SECONDS = 3600


def spec_of(
    model: str,
    serving: Mapping[str, Serving],
    longest_request_seconds: int,
    settle_seconds: int = 0,
) -> Spec:
    """Returns what the launchers of a model are told.

    Args:
        model: key of the model.
        serving: by kind of hardware.
        longest_request_seconds: how long a server that must end may finish what it answers.
        settle_seconds: how long before that it takes requests still.
    """
    facts = engine(next(iter(serving.values())).engine)
    return Spec(
        busy_metrics=(facts.metrics.queue, facts.metrics.running),
        health_path=facts.health_path,
        health_port=HEALTH_PORT,
        longest_request_seconds=longest_request_seconds,
        metrics_path=facts.metrics.path,
        model=model,
        serving=dict(serving),
        settle_seconds=settle_seconds,
    )


def config_map(name: str, namespace: str, spec: Spec) -> Manifest:
    """Returns the ConfigMap with the launcher and its spec."""
    files = {**launcher_files(), "spec.json": spec.text()}
    return manifest("config_map", name, namespace, labels=labels_for(name, "launcher"), data=files)


def launcher_files() -> dict[str, str]:
    """Return the launcher's files by name; `launcher` is a link to `workloads/engine`."""
    folder = Path(__file__).with_name("launcher")
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.py"))}


def annotations(spec: Spec) -> dict[str, str]:
    """Returns the annotations of pods that run a launcher."""
    return {ANNOTATION: fingerprint({**launcher_files(), "spec.json": spec.text()})}


def volumes(config: str) -> list[Manifest]:
    """Returns the volumes with a model's launcher, and with what lets it read its own Node.

    The token is the pod's own, lasts an hour and is renewed; what it may do is what the namespace
    grants (`ServingNamespace`): get nodes.
    """
    sources: list[Manifest] = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {
            "configMap": {
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
                "name": "kube-root-ca.crt",
            }
        },
    ]
    return [
        {"configMap": {"name": config}, "name": _VOLUME},
        {"name": _ACCESS_VOLUME, "projected": {"sources": sources}},
    ]


def command(serving: Serving, options: Sequence[str] = ()) -> list[str]:
    """Returns the command of a container; `engine_arguments` follow as its arguments.

    Args:
        serving: what it serves.
        options: more options of the launcher.
    """
    launcher = ["python3", "-m", "engine", f"--spec={SPEC}", f"--hardware={serving.kind}"]
    return [*launcher, *options, "--", *program(serving.engine)]


def started(container: Manifest, serving: Serving, options: Sequence[str] = ()) -> None:
    """Gives a container the launcher: command, arguments, files and what it has to know."""
    container["command"] = command(serving, options)
    container["args"] = arguments(serving)
    container["env"] += [
        {"name": NAME_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "PYTHONPATH", "value": HOME},
    ]
    container["volumeMounts"] += [
        {"mountPath": FOLDER, "name": _VOLUME, "readOnly": True},
        {"mountPath": ACCESS, "name": _ACCESS_VOLUME, "readOnly": True},
    ]
