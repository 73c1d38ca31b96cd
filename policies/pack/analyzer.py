"""Serves the pack to the engine, checking a resource only against policies for its type.

The SDK parses the whole request again for each policy, before the policy decides whether it applies
to the resource. That took most of the pack's time in a preview. The analyzer is part of the pack,
so it saves the same time under any language host: it leaves out policies for other types, and reads
the properties of a request once. `GKE_INFERENCE_NO_SPEEDUPS=1` turns it off, and the twin's
patches, which the pack must not need (docs/adr/0002-attached-providers.md).
"""

import copy
import math
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf import json_format
from pulumi_policy import deserialize, policy
from pulumi_policy.proxy import unknown_checking_proxy

from policies.framework.resources import Properties, Resource
from policies.rules import resource_rules

_Service: Any = policy._PolicyAnalyzerServicer
OFF = "GKE_INFERENCE_NO_SPEEDUPS"
"""Variable that makes the pack check every resource against every policy, as the SDK does."""
_POLICIES = "_PolicyAnalyzerServicer__policies"


class _Unread(Mapping[str, Any]):
    """Properties that rules may not read."""

    def __getitem__(self, key: str) -> Any:
        raise TypeError(f"Rule.applies: must decide by the type alone, looked at {key!r}")

    def __iter__(self) -> Iterator[str]:
        raise TypeError("Rule.applies: must decide by the type alone, looked at every property")

    def __len__(self) -> int:
        raise TypeError("Rule.applies: must decide by the type alone, counted properties")


class ReadOnce:
    """The module json_format, which reads the properties of one request once for all policies."""

    def __init__(self) -> None:
        self._thread = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(json_format, name)

    def forget(self) -> None:
        """Forget what this thread has read; to be called for each request."""
        self._thread.read = {}

    def MessageToDict(self, message: Any) -> Any:
        """Return properties as plain values, which the caller may not change."""
        read: dict[int, tuple[Any, Any]] | None = getattr(self._thread, "read", None)
        if read is None:  # the engine configures the pack
            return json_format.MessageToDict(message)
        found = read.get(id(message))
        if found is None:  # the message is kept, so that no other one gets its identity
            found = read[id(message)] = (message, _plain(message))
        return found[1]


def _plain(struct: Any) -> dict[str, Any]:
    fields = struct.fields
    return {key: _value(fields[key]) for key in fields}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "struct_value":
        return _plain(value.struct_value)
    if kind == "list_value":
        return [_value(each) for each in value.list_value.values]
    if kind == "bool_value":
        return value.bool_value
    if kind == "number_value" and math.isfinite(value.number_value):
        return value.number_value
    return json_format.MessageToDict(value)  # null, or what JSON does not have


_JSON = ReadOnce()


def idle_names(resource_type: str) -> set[str]:
    """Return the names of the rules that do not apply to a type.

    Raises:
        TypeError: a rule needs more than the type to decide whether it applies.
    """
    resource = Resource(resource_type, "", "", _Unread())
    return {rule.name for rule in resource_rules() if not rule.applies(resource)}


class Analyzer(_Service):
    """The SDK's service, with a separate policy list for each type."""

    seen: dict[str, Properties]
    """Receives the inputs of every Kubernetes object by URN, for stack rules."""

    def __init__(self, *args: Any) -> None:
        _Service.__init__(self, *args)
        self._by_type: dict[str, Any] = {}

    def Configure(self, request: Any, context: Any) -> Any:
        """Read the levels and settings of policies."""
        self._by_type = {}
        return _Service.Configure(self, request, context)

    def ConfigureStack(self, request: Any, context: Any) -> Any:
        """Read what is known about the stack."""
        self._by_type = {}
        return _Service.ConfigureStack(self, request, context)

    def Analyze(self, request: Any, context: Any) -> Any:
        """Return the policies that a resource violates."""
        _JSON.forget()
        if request.type.startswith("kubernetes:"):
            plain = _JSON.MessageToDict(request.properties)
            inputs = deserialize.deserialize_properties(plain)
            self.seen[request.urn] = unknown_checking_proxy(inputs)
        return _Service.Analyze(self._about(request.type), request, context)

    def AnalyzeStack(self, request: Any, context: Any) -> Any:
        """Return the policies that the stack violates."""
        _JSON.forget()
        return _Service.AnalyzeStack(self, request, context)

    def _about(self, resource_type: str) -> Any:
        """Return the service with the policies for a type; fails if the SDK has none."""
        if _is_off():
            return self
        service = self._by_type.get(resource_type)
        if service is None:
            service = copy.copy(self)
            idle = idle_names(resource_type)
            policies: list[policy.Policy] = getattr(self, _POLICIES)
            setattr(service, _POLICIES, [each for each in policies if each.name not in idle])
            self._by_type[resource_type] = service
        return service


def analyzer_of(seen: dict[str, Properties]) -> type[Analyzer]:
    """Return the service of a pack whose stack rules read `seen`."""
    return type("Analyzer", (Analyzer,), {"seen": seen})


def serve_by_type(seen: dict[str, Properties]) -> None:
    """Make the next `PolicyPack` serve a separate policy list for each type.

    Args:
        seen: as of `Analyzer`.
    """
    service: Any = policy
    service._PolicyAnalyzerServicer = analyzer_of(seen)
    if not _is_off():
        service.json_format = _JSON


def _is_off() -> bool:
    return os.environ.get(OFF, "") not in {"", "0"}
