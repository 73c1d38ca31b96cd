"""The arguments of `kubernetes.Provider`, read and checked."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from twin.providers.kubernetes.manifests.errors import InvalidInput
from twin.providers.kubernetes.manifests.fields import entries
from twin.wire.kube import JsonObject
from twin.wire.property_values import UNKNOWN

_BOOLEANS = {
    "deleteUnreachable": "delete_unreachable",
    "enableConfigMapMutable": "mutable_config_maps",
    "enablePatchForce": "patch_force",
    "enableSecretMutable": "mutable_secrets",
    "skipUpdateUnreachable": "skip_update_unreachable",
    "upsertExistingObjects": "upsert",
}
_STRINGS = ("kubeconfig", "context", "cluster", "clusterIdentifier", "namespace")
_IGNORED = (
    "helmReleaseSettings",
    "kubeClientSettings",
    "suppressDeprecationWarnings",
    "suppressHelmHookWarnings",
    "version",
    "pluginDownloadURL",
)
_REFUSED = {
    "alwaysRender": "is not in the twin: `gke-inference render` writes manifests",
    "renderYamlToDirectory": "is not in the twin: `gke-inference render` writes manifests",
}


@dataclass(frozen=True)
class Settings:
    """The configuration of a provider instance."""

    kubeconfig: str = ""
    """Content or path of a kubeconfig."""
    context: str = ""
    cluster: str = ""
    namespace: str = ""
    """Default namespace of objects."""
    patch_force: bool = False
    """Whether to take over fields of other managers."""
    upsert: bool = False
    """Whether creating an existing object updates it instead of failing."""
    delete_unreachable: bool = False
    """Whether to forget objects of an unreachable cluster."""
    skip_update_unreachable: bool = False
    """Whether to keep objects of an unreachable cluster unchanged."""
    mutable_config_maps: bool = False
    mutable_secrets: bool = False

    @classmethod
    def of(cls, args: dict[str, Any]) -> "Settings":
        """Read checked arguments; booleans can be JSON strings, as sent by the engine."""
        values: dict[str, Any] = {
            name: args[name] for name in ("context", "cluster", "namespace") if args.get(name)
        }
        kubeconfig = args.get("kubeconfig") or ""
        values["kubeconfig"] = kubeconfig if isinstance(kubeconfig, str) else json.dumps(kubeconfig)
        for argument, field in _BOOLEANS.items():
            if args.get(argument) not in (None, ""):
                values[field] = args[argument] in (True, "true")
        return cls(**values)


def check(args: dict[str, Any]) -> list[InvalidInput]:
    """Return the errors in a provider's arguments."""
    failures: list[InvalidInput] = []
    for name, value in args.items():
        if name in _REFUSED and value:
            failures.append(InvalidInput(name, _REFUSED[name]))
        elif name == "enableServerSideApply" and value in (False, "false"):
            failures.append(
                InvalidInput(name, "must be true: the twin applies on the server's side")
            )
        elif name in _BOOLEANS and value not in (True, False, "true", "false", UNKNOWN):
            failures.append(InvalidInput(name, f"must be true or false, got {value!r}"))
        elif not (
            name in _BOOLEANS
            or name in _STRINGS
            or name in _IGNORED
            or name in _REFUSED
            or name == "enableServerSideApply"
            or name.startswith("__")
        ):
            failures.append(InvalidInput(name, "is not an argument of kubernetes.Provider"))
    try:
        read_kubeconfig(Settings.of(args))
    except InvalidInput as error:
        failures.append(error)
    return failures


def read_kubeconfig(settings: Settings) -> JsonObject | None:
    """Return a provider's kubeconfig with its current context; None if it is not known yet.

    Raises:
        InvalidInput: the kubeconfig is not valid, or its context or cluster does not exist.
    """
    if settings.kubeconfig in ("", UNKNOWN):
        return None
    config = _load(settings.kubeconfig)
    contexts = {entry["name"]: entry for entry in entries(config, "contexts")}
    clusters = {entry["name"] for entry in entries(config, "clusters")}
    current = settings.context or config.get("current-context") or ""
    if current not in contexts:
        name = "context" if settings.context else "kubeconfig"
        raise InvalidInput(name, f"must name a context of the kubeconfig, got {current!r}")
    if settings.cluster and settings.cluster not in clusters:
        raise InvalidInput("cluster", f"is not in the kubeconfig: {settings.cluster!r}")
    chosen = json.loads(json.dumps(contexts[current]))
    if settings.cluster:
        chosen["context"]["cluster"] = settings.cluster
    return {**config, "current-context": current, "contexts": [chosen]}


def _load(text: str) -> JsonObject:
    try:
        if "\n" not in text and "{" not in text:
            text = Path(text).expanduser().read_text()
        config: Any = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except OSError as error:
        raise InvalidInput("kubeconfig", f"cannot be read: {error}") from error
    except (ValueError, yaml.YAMLError) as error:
        raise InvalidInput("kubeconfig", f"is neither YAML nor JSON: {error}") from error
    if not entries(config, "clusters"):
        raise InvalidInput("kubeconfig", "must be a kubeconfig with clusters, contexts and users")
    return config


def active_cluster(settings: Settings) -> JsonObject | None:
    """Return a provider's cluster connection, or None if it is not known.

    The cluster's name in the kubeconfig is not included.
    """
    config = read_kubeconfig(settings)
    if config is None:
        return None
    wanted = config["contexts"][0]["context"]["cluster"]
    return next((each["cluster"] for each in config["clusters"] if each["name"] == wanted), None)
