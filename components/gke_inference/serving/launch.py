"""Start of an engine in a pod: launcher files and spec in a ConfigMap, and the command.

The platform provides the launcher, not the image, so that both always match and upstream images
work unchanged; our own images contain the same files at the same path. The whole engine command
line is in the pod spec, where people and checks look for it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gke_inference.base.manifests import (
    Manifest,
    fingerprint,
    labels_for,
    literal,
    manifest,
)
from gke_inference.catalogue.engines import engine
from gke_inference.serving.launcher.commands import is_reference, own_arguments, program
from gke_inference.serving.launcher.node import ACCESS, NAME_VARIABLE
from gke_inference.serving.launcher.spec import CHAT_TEMPLATE, Serving, Spec
from gke_inference.serving.startup import LEAST_MINUTES

HOME = "/opt/gke-inference"
FOLDER = f"{HOME}/engine"
SPEC = f"{FOLDER}/spec.json"
HEALTH_PORT = 8090
"""Port of the launcher. The second launcher of a pod uses the next port."""

ANNOTATION = "gke-inference/engine"
"""Pod annotation with a hash of the ConfigMap, so that pods restart when it changes."""

_VOLUME = "launcher"
_ACCESS_VOLUME = "node-reader"
_TOKEN_SECONDS = 3600


def spec_of(
    model: str,
    serving: Mapping[str, Serving],
    longest_request_seconds: int,
    settle_seconds: int = 0,
    start_seconds: int = LEAST_MINUTES * 60,
) -> Spec:
    """Return the spec of a model's launchers.

    Args:
        model: key of the model.
        serving: by kind of hardware.
        longest_request_seconds: Time that a terminating server has to finish its requests.
        settle_seconds: Time before that in which it still accepts requests.
        start_seconds: Time for a start, from when the weights are available.
    """
    facts = engine(next(iter(serving.values())).engine)
    return Spec(
        busy_metrics=facts.metrics.busy,
        health_path=facts.health_path,
        health_port=HEALTH_PORT,
        longest_request_seconds=longest_request_seconds,
        metrics_path=facts.metrics.path,
        metrics_port=facts.metrics.port,
        model=model,
        serving=dict(serving),
        settle_seconds=settle_seconds,
        start_seconds=start_seconds,
    )


def files_of(spec: Spec, chat_template: str | None) -> dict[str, str]:
    """Return the files that a server's launcher and engine read, by name.

    Args:
        spec: Spec of the launcher.
        chat_template: Text of the model's chat template; None: that of the weights.
    """
    files = {**launcher_files(), "spec.json": spec.text()}
    return files if chat_template is None else {**files, CHAT_TEMPLATE: chat_template}


def config_map(name: str, namespace: str, files: Mapping[str, str]) -> Manifest:
    """Return the ConfigMap with the files of a server."""
    return manifest(
        "config_map", name, namespace, labels=labels_for(name, "launcher"), data=dict(files)
    )


def launcher_files() -> dict[str, str]:
    """Return the launcher's files by name; `launcher` is a link to `workloads/engine`."""
    folder = Path(__file__).with_name("launcher")
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.py"))}


def annotations(files: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of pods that run a launcher with these files."""
    return {ANNOTATION: fingerprint(dict(files))}


def volumes(config: str) -> list[Manifest]:
    """Return the volumes with a model's launcher, and with the token to read its own Node.

    The token is the pod's own, expires after an hour and is renewed. Its permissions are those that
    the namespace grants (`ServingNamespace`): reading nodes.
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
    """Return the command of a container. The engine's arguments follow as its own.

    Args:
        serving: Served configuration.
        options: more options of the launcher.
    """
    launcher = ["python3", "-m", "engine", f"--spec={SPEC}", f"--hardware={serving.kind}"]
    return [*launcher, *options, "--", *program(serving.engine)]


def started(container: Manifest, serving: Serving, options: Sequence[str] = ()) -> None:
    """Add the launcher to a container: command, arguments, files and environment."""
    container["command"] = command(serving, options)
    container["args"] = [
        *(word if is_reference(word) else literal(word) for word in own_arguments(serving)),
        *(literal(word) for word in serving.extra_arguments),
    ]
    container["env"] += [
        {"name": NAME_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "PYTHONPATH", "value": HOME},
    ]
    container["volumeMounts"] += [
        {"mountPath": FOLDER, "name": _VOLUME, "readOnly": True},
        {"mountPath": ACCESS, "name": _ACCESS_VOLUME, "readOnly": True},
    ]
