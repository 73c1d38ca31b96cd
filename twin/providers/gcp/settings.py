"""Configuration of the provider, separate for each connected engine.

The official provider runs one process per provider object of a program. Here one server handles all
and distinguishes them by the engine's connections.
"""

import json
import threading
from collections import OrderedDict
from typing import Any

from twin.wire.engine_log import EngineLog
from twin.wire.property_values import Json, as_object, is_unknown

_MAX_CONNECTIONS = 512
_OWN_KEYS = {"version", "pluginDownloadURL", "__internal"}
COMMON_KEYS = {
    "accessToken",
    "addPulumiAttributionLabel",
    "billingProject",
    "credentials",
    "defaultLabels",
    "disableGlobalProjectWarning",
    "impersonateServiceAccount",
    "project",
    "region",
    "requestReason",
    "requestTimeout",
    "scopes",
    "universeDomain",
    "userProjectOverride",
    "zone",
}


NO_PROJECT = """unable to detect a global setting for GCP Project.
Pulumi will rely on per-resource settings for this operation.
Set the GCP Project by using:
\t`pulumi config set gcp:project <project>`
If you would like to disable this warning use:
\t`pulumi config set gcp:disableGlobalProjectWarning true`"""
"""Message of the official provider (pulumi-gcp, provider/resources.go, read 2026-11-22)."""


def lacks_project(settings: Json) -> bool:
    """Return whether the official provider would warn about a missing project."""
    return not settings.get("project") and settings.get("disableGlobalProjectWarning") is not True


def parse(arguments: Json) -> Json:
    """Return provider configuration with JSON strings parsed."""
    parsed: Json = {}
    for key, value in arguments.items():
        if key in _OWN_KEYS or value is None:
            continue
        parsed[key] = _value(value) if key not in ("project", "region", "zone") else value
    labels = as_object(parsed.get("defaultLabels"))
    if labels is None:
        parsed.pop("defaultLabels", None)
    return parsed


def unknown_keys(arguments: Json) -> list[str]:
    """Return the keys that the provider does not support."""
    candidates = {key for key in arguments if key not in _OWN_KEYS | COMMON_KEYS}
    if not candidates:
        return []
    from pulumi_gcp import ProviderArgs  # noqa: PLC0415 - half a second, and rarely needed

    names = ProviderArgs.__init__.__annotations__
    camel = {_camel(name) for name in names}
    return sorted(candidates - camel)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _value(value: Any) -> Any:
    if not isinstance(value, str) or is_unknown(value):
        return value
    if value in ("true", "false"):
        return value == "true"
    if value.startswith(("{", "[")):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


class Connections:
    """The configuration of each connection; an unknown connection gets the newest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settings: OrderedDict[str, Json] = OrderedDict()
        self._logs: OrderedDict[str, str] = OrderedDict()

    def set_log(self, peer: str, address: str) -> None:
        """Record the address for messages to the engine at `peer`; empty if there is none."""
        with self._lock:
            self._logs[peer] = address
            while len(self._logs) > _MAX_CONNECTIONS:
                self._logs.popitem(last=False)

    def warn(self, peer: str, message: str) -> None:
        """Show a warning to the user of the engine at `peer`."""
        with self._lock:
            address = self._logs.get(peer, "")
        engine = EngineLog()
        engine.connect(address)
        engine.warn("", message)
        engine.close()

    def set(self, peer: str, settings: Json) -> None:
        """Record the configuration from the engine at `peer`."""
        with self._lock:
            self._settings[peer] = settings
            self._settings.move_to_end(peer)
            while len(self._settings) > _MAX_CONNECTIONS:
                self._settings.popitem(last=False)

    def get(self, peer: str) -> Json:
        """Return the configuration of `peer`."""
        with self._lock:
            found = self._settings.get(peer)
            if found is None and self._settings:
                found = next(reversed(self._settings.values()))
            return found or {}
