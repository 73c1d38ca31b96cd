"""Real operators as processes, with their own configuration file but addresses of this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from twin.cluster.agent.launching.environment import ConfigError, expand
from twin.cluster.agent.launching.volumes import Mount, rewrite
from twin.cluster.base.fields import part
from twin.host.ports import free_ports
from twin.wire.kube import JsonObject

_LOOPBACK = "127.0.0.1"
_WEBHOOK, _HEALTH, _METRICS = 9443, 8081, 8443
_CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - upstream's default
Ports = dict[int, tuple[str, int]]


@dataclass(frozen=True)
class Settings:
    """An operator's arguments and its ports on this machine."""

    arguments: list[str]
    ports: Ports


def settings(
    container: JsonObject, variables: dict[str, str], mounts: list[Mount], folder: Path
) -> Settings:
    """Return the arguments of an operator with a `--config` file that contains addresses.

    The file keeps all fields of the user's, except listening addresses and the certificate.

    Args:
        container: Container of the pod.
        variables: Environment of the container.
        mounts: Mounts of the container.
        folder: Folder of the pod, for the changed file.

    Raises:
        ConfigError: The argument or the file does not exist.
    """
    arguments: list[str] = []
    ports: Ports = {}
    for word in container.get("args", []):
        name, equals, value = expand(word, variables).partition("=")
        if name == "--config" and equals:
            given = Path(rewrite(value, mounts))
            if not given.is_file():
                raise ConfigError(f"--config: no file is mounted at {value}")
            changed, ports = _moved(yaml.safe_load(given.read_text()) or {}, mounts)
            file = folder / f"{container['name']}.config.yaml"
            file.write_text(yaml.safe_dump(changed))
            value = str(file)
        arguments.append(f"{name}{equals}{value}")
    if not ports:
        raise ConfigError("the operator's args must name a file with --config=PATH")
    return Settings(arguments, ports)


def _moved(config: dict[str, Any], mounts: list[Mount]) -> tuple[dict[str, Any], Ports]:
    webhook, health, metrics = (part(config, key) for key in ("webhook", "health", "metrics"))
    free = free_ports(3)
    certificates = rewrite(str(webhook.get("certDir") or _CERTIFICATES), mounts)
    probed = str(health.get("healthProbeBindAddress") or f":{_HEALTH}")
    ports: Ports = {
        int(webhook.get("port") or _WEBHOOK): (_LOOPBACK, free[0]),
        int(probed.rpartition(":")[2]): (_LOOPBACK, free[1]),
    }
    changed = {
        **config,
        "webhook": {**webhook, "certDir": certificates, "host": _LOOPBACK, "port": free[0]},
        "health": {**health, "healthProbeBindAddress": f"{_LOOPBACK}:{free[1]}"},
    }
    shown = str(metrics.get("bindAddress") or f":{_METRICS}")
    if shown != "0":
        ports[int(shown.rpartition(":")[2])] = (_LOOPBACK, free[2])
        changed["metrics"] = {**metrics, "bindAddress": f"{_LOOPBACK}:{free[2]}"}
    return changed, ports
