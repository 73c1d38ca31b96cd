"""Prometheus scrape configuration from PodMonitoring and ClusterPodMonitoring. Pure.

This module rejects what the operator of Managed Prometheus rejects
(GoogleCloudPlatform/prometheus-engine, pkg/operator/apis/monitoring/v1/pod_config.go and
http_types.go), and also passwords and OAuth 2, which no program of the platform requires.
"""

import re
from dataclasses import dataclass
from typing import Any

from twin.cluster.base.fields import part, parts
from twin.cluster.monitoring.durations import Clock, seconds, text
from twin.wire.kube import JsonObject

_PROTECTED = ("project_id", "location", "cluster", "namespace", "job", "instance", "__address__")
_NOT_READ = ("basicAuth", "oauth2")
_DEFAULT_INTERVAL = "1m"
_LIMITS = {
    "samples": "sample_limit",
    "labels": "label_limit",
    "labelNameLength": "label_name_length_limit",
    "labelValueLength": "label_value_length_limit",
}
_RELABEL_KEYS = {
    "action": "action",
    "modulus": "modulus",
    "regex": "regex",
    "replacement": "replacement",
    "separator": "separator",
    "sourceLabels": "source_labels",
    "targetLabel": "target_label",
}


class ConfigError(Exception):
    """A monitoring object cannot be converted to configuration; the message gives the reason."""


@dataclass(frozen=True, order=True)
class SecretKey:
    """A key of a Secret that has a token for scrape targets."""

    namespace: str
    name: str
    key: str

    @property
    def file(self) -> str:
        """Name of the file that has the token for Prometheus. No name has an underscore."""
        return f"{self.namespace}_{self.name}_{self.key}"


def secret_keys(monitoring: JsonObject) -> set[SecretKey]:
    """Return the keys of Secrets that the endpoints of a valid object use."""
    found = (_token(monitoring, each) for each in parts(monitoring["spec"], "endpoints"))
    return {each for each in found if each is not None}


def job_name(monitoring: JsonObject, endpoint: JsonObject) -> str:
    """Return the name of the job that scrapes an endpoint: `PodMonitoring/NAMESPACE/NAME/PORT`."""
    metadata = monitoring["metadata"]
    words = [monitoring["kind"], metadata.get("namespace"), metadata["name"], endpoint["port"]]
    return "/".join(str(word) for word in words if word is not None)


def scrape_configs(
    monitoring: JsonObject, clock: Clock, folder: str, tokens: str
) -> dict[str, JsonObject]:
    """Return the scrape configuration of each endpoint by the name of its file of targets.

    Args:
        monitoring: PodMonitoring or ClusterPodMonitoring.
        clock: clock of the twin.
        folder: folder of the target files.
        tokens: folder of the files of `secret_keys`.

    Raises:
        ConfigError: Managed Prometheus would reject the object.
    """
    found: dict[str, JsonObject] = {}
    for index, endpoint in enumerate(parts(monitoring["spec"], "endpoints")):
        job = job_name(monitoring, endpoint)
        file = re.sub(r"[^A-Za-z0-9.-]", "_", job.replace("/", "--")) + ".json"
        if file in found:
            raise ConfigError(f"duplicate endpoint {job}: ports must differ")
        try:
            config = _scrape_config(endpoint, clock)
            token = _token(monitoring, endpoint)
        except ValueError as error:
            text_ = f"invalid definition for endpoint with index {index}: {error}"
            raise ConfigError(text_) from error
        if token is not None:
            kind = part(endpoint, "authorization").get("type") or "Bearer"
            config["authorization"] = {"credentials_file": f"{tokens}/{token.file}", "type": kind}
        limits = part(monitoring["spec"], "limits")
        config |= {name: limits[key] for key, name in _LIMITS.items() if key in limits}
        files = {"files": [f"{folder}/{file}"], "refresh_interval": "1m"}
        found[file] = {"job_name": job, "file_sd_configs": [files], **config}
    return found


def _scrape_config(endpoint: JsonObject, clock: Clock) -> JsonObject:
    for key in _NOT_READ:
        if endpoint.get(key):
            raise ValueError(f"{key}: the twin does not implement it")
    interval = clock.interval(endpoint.get("interval") or _DEFAULT_INTERVAL)
    timeout = min(seconds(interval), seconds(endpoint.get("timeout") or interval))
    config: JsonObject = {
        "honor_timestamps": False,
        "metric_relabel_configs": [_relabel(rule) for rule in parts(endpoint, "metricRelabeling")],
        "metrics_path": endpoint.get("path") or "/metrics",
        "scheme": endpoint.get("scheme") or "http",
        "scrape_interval": interval,
        "scrape_timeout": text(timeout),
    }
    if endpoint.get("params"):
        config["params"] = endpoint["params"]
    if part(endpoint, "tls").get("insecureSkipVerify"):
        config["tls_config"] = {"insecure_skip_verify": True}
    return config


def _token(monitoring: JsonObject, endpoint: JsonObject) -> SecretKey | None:
    """Return the Secret with an endpoint's token, if it has one.

    Raises:
        ValueError: The operator rejects the reference.
    """
    given = part(endpoint, "authorization")
    if str(given.get("type", "")).lower() == "basic":
        rule = 'authorization type cannot be set to "basic", use "basic_auth" instead'
        raise ValueError(rule)
    secret = part(part(given, "credentials"), "secret")
    if not secret:
        return None
    own = monitoring["metadata"].get("namespace")
    namespace = secret.get("namespace") or own or "default"
    if own is not None and namespace != own:
        raise ValueError(f'must use namespace "{own}", got: "{namespace}"')
    return SecretKey(namespace, secret["name"], secret["key"])


def _relabel(rule: JsonObject) -> dict[str, Any]:
    action = str(rule.get("action") or "replace").lower()
    target, expression = rule.get("targetLabel", ""), rule.get("regex") or "(.*)"
    try:
        matched = [re.fullmatch(expression, label) is not None for label in _PROTECTED]
    except re.error as error:
        raise ValueError(f"invalid regex {expression!r}: {error}") from error
    if action in ("replace", "hashmod") and target in _PROTECTED:
        raise ValueError(f"cannot relabel with action {action!r} onto protected label {target!r}")
    if action == "labelmap":
        raise ValueError(f"relabeling with action {action!r} not allowed")
    if (action == "labeldrop" and any(matched)) or (action == "labelkeep" and not all(matched)):
        raise ValueError(f"regex {expression} would drop at least one of the protected labels")
    return {_RELABEL_KEYS[key]: value for key, value in rule.items() if key in _RELABEL_KEYS}
