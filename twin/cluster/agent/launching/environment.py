"""A container's environment and arguments, as resolved by the kubelet."""

import base64
import re
from typing import Any, cast

from twin.wire.kube import JsonObject, Kube, KubeError

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Folder in which a container finds its service account's token and the API server's CA."""

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_MAP_KEY = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class ConfigError(Exception):
    """The container cannot be started as specified (`CreateContainerConfigError`)."""


def expand(text: str, variables: dict[str, str]) -> str:
    """Replace `$(NAME)` with known variables; `$$(NAME)` becomes the literal `$(NAME)`."""

    def one(match: re.Match[str]) -> str:
        if match.group(0) == "$$":
            return "$"
        return variables.get(match.group(1), match.group(0))

    return _REFERENCE.sub(one, text)


def field(pod: JsonObject, path: str) -> str:
    """Return the value of a `fieldRef` of the downward API.

    Raises:
        ConfigError: The field does not exist.
    """
    match = _MAP_KEY.fullmatch(path)
    if match:
        return str(pod["metadata"].get(match.group(1), {}).get(match.group(2), ""))
    if path == "status.podIPs":
        path = "status.podIP"
    if path == "status.hostIPs":
        path = "status.hostIP"
    value: Any = pod
    for part in path.split("."):
        value = cast("JsonObject", value).get(part) if isinstance(value, dict) else None
        if value is None:
            if path.startswith("spec.serviceAccountName"):
                return "default"
            raise ConfigError(f"fieldRef {path}: unsupported fieldPath")
    return str(value)


def decoded(obj: JsonObject) -> dict[str, bytes]:
    """Return the keys of a ConfigMap or Secret with their content."""
    data: dict[str, str] = obj.get("data") or {}
    if obj.get("kind") == "Secret":
        return {key: base64.b64decode(value) for key, value in data.items()}
    binary: dict[str, str] = obj.get("binaryData") or {}
    decoded_binary = {key: base64.b64decode(value) for key, value in binary.items()}
    return {key: value.encode() for key, value in data.items()} | decoded_binary


class Sources:
    """Reads the ConfigMaps, Secrets and Services that reach a pod as variables."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace

    def content(self, kind: str, name: str, *, optional: bool = False) -> dict[str, bytes]:
        """Return the keys of a `configmaps` or `secrets` object.

        Raises:
            ConfigError: It does not exist and is not optional.
        """
        path = f"/api/v1/namespaces/{self._namespace}/{kind}/{name}"
        try:
            obj = self._kube.get(path)
        except KubeError as error:
            if error.status == 404 and optional:
                return {}
            if error.status == 404:
                raise ConfigError(f'{kind[:-1]} "{name}" not found') from error
            raise
        return decoded(obj)

    def services(self) -> list[JsonObject]:
        """Return the Services of the pod's namespace."""
        listed = self._kube.get(f"/api/v1/namespaces/{self._namespace}/services")
        return listed.get("items") or []

    def key(self, kind: str, reference: JsonObject) -> str | None:
        """Return one key, or None if it is optional and missing.

        Raises:
            ConfigError: It does not exist.
        """
        optional = bool(reference.get("optional"))
        content = self.content(kind, reference["name"], optional=optional)
        if reference["key"] not in content:
            if optional:
                return None
            raise ConfigError(
                f"couldn't find key {reference['key']} in {kind[:-1]} "
                f"{self._namespace}/{reference['name']}"
            )
        return content[reference["key"]].decode()


def variables(pod: JsonObject, container: JsonObject, sources: Sources) -> dict[str, str]:
    """Return the container's environment: Services, then `envFrom`, then `env` in its order.

    Raises:
        ConfigError: A source is missing.
    """
    links = pod["spec"].get("enableServiceLinks", True)
    linked = service_links(sources.services()) if links else {}
    # only `env` may refer to the variables of Services, and every other source replaces them
    out: dict[str, str] = {}
    for entry in container.get("envFrom", []):
        for kind, name in (("configmaps", "configMapRef"), ("secrets", "secretRef")):
            if name in entry:
                found = sources.content(
                    kind, entry[name]["name"], optional=bool(entry[name].get("optional"))
                )
                prefix = entry.get("prefix", "")
                out |= {prefix + key: value.decode() for key, value in found.items()}
    for entry in container.get("env", []):
        value = _value(pod, container, entry, sources, {**linked, **out})
        if value is not None:
            out[entry["name"]] = value
    return {**linked, **out}


def service_links(services: list[JsonObject]) -> dict[str, str]:
    """Return the variables that Services give to the pods of their namespace.

    Headless Services give none (rule `agent.service-links`).
    """
    out: dict[str, str] = {}
    for service in services:
        address = service["spec"].get("clusterIP")
        ports: list[JsonObject] = service["spec"].get("ports") or []
        if address in (None, "", "None") or not ports:
            continue
        prefix = service["metadata"]["name"].upper().replace("-", "_")
        out[f"{prefix}_SERVICE_HOST"] = address
        out[f"{prefix}_SERVICE_PORT"] = str(ports[0]["port"])
        for port in ports:
            if port.get("name"):
                word = port["name"].upper().replace("-", "_")
                out[f"{prefix}_SERVICE_PORT_{word}"] = str(port["port"])
        host = f"[{address}]" if ":" in address else address
        for index, port in enumerate(ports):
            protocol = port.get("protocol", "TCP")
            link = f"{protocol.lower()}://{host}:{port['port']}"
            if index == 0:
                out[f"{prefix}_PORT"] = link
            name = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
            out |= {
                name: link,
                f"{name}_PROTO": protocol.lower(),
                f"{name}_PORT": str(port["port"]),
                f"{name}_ADDR": address,
            }
    return out


def _value(
    pod: JsonObject,
    container: JsonObject,
    entry: JsonObject,
    sources: Sources,
    known: dict[str, str],
) -> str | None:
    source: JsonObject = entry.get("valueFrom") or {}
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"])
    if "configMapKeyRef" in source:
        return sources.key("configmaps", source["configMapKeyRef"])
    if "secretKeyRef" in source:
        return sources.key("secrets", source["secretKeyRef"])
    if "resourceFieldRef" in source:
        section, _, resource = source["resourceFieldRef"]["resource"].partition(".")
        return str(container.get("resources", {}).get(section, {}).get(resource, "0"))
    return expand(str(entry.get("value", "")), known)
