"""The gRPC service of the provider, which delegates to the other modules."""

import logging
from typing import Any

from twin.providers.gcp import settings
from twin.providers.gcp.acknowledgements import Witness
from twin.providers.gcp.checks import diff
from twin.providers.gcp.checks.defaults import autonamed, fill_in, with_lists, without_lists
from twin.providers.gcp.checks.fixed import check_fixed, check_used_ranges
from twin.providers.gcp.checks.planned_values import unknown_until_applied
from twin.providers.gcp.checks.suppress import relative_path
from twin.providers.gcp.checks.validate import add_when_needed, validate_inputs
from twin.providers.gcp.effects.base import World
from twin.providers.gcp.effects.registry import effect_of
from twin.providers.gcp.lifecycle import Lifecycle
from twin.providers.gcp.operations import EngineGoneError, Operation
from twin.providers.gcp.resources import functions
from twin.providers.gcp.resources.computed_outputs import planned, with_secrets
from twin.providers.gcp.resources.references import CLUSTER, SUBNETWORK
from twin.providers.gcp.schema import Resource, resource
from twin.wire import rpc
from twin.wire.property_values import (
    UNKNOWN,
    CloudError,
    Failure,
    Json,
    is_unknown,
    last_segment,
    strip_secrets,
)
from twin.wire.rpc import provider_pb2
from twin.world.store import Record

_log = logging.getLogger(__name__)
_STATUS = rpc.grpc_module.StatusCode
_CODES = {400: _STATUS.INVALID_ARGUMENT, 404: _STATUS.NOT_FOUND, 409: _STATUS.ALREADY_EXISTS}
_KINDS = provider_pb2.PropertyDiff
_DIFF_KINDS: dict[tuple[str, bool], Any] = {
    ("add", False): _KINDS.ADD,
    ("add", True): _KINDS.ADD_REPLACE,
    ("delete", False): _KINDS.DELETE,
    ("delete", True): _KINDS.DELETE_REPLACE,
    ("update", False): _KINDS.UPDATE,
    ("update", True): _KINDS.UPDATE_REPLACE,
}


def _token(urn: str) -> str:
    return urn.split("::")[2].rpartition("$")[2]


def _logical_name(urn: str) -> str:
    return urn.split("::", 3)[3]


def _values(struct: Any) -> Json:
    return without_lists(strip_secrets(rpc.plain(struct)))


class Provider(rpc.BaseProvider):
    """The twin's gcp provider."""

    version = "10.2.0"

    def __init__(self, world: World) -> None:
        self.lifecycle = Lifecycle(world)
        self._world = world
        self._connections = settings.Connections()
        self._witness = Witness(world.store, world.rules.seconds("cloud.create.interrupted"))

    def Handshake(self, request: Any, context: Any) -> Any:
        """Negotiate the protocol, and record the address of the engine's log."""
        self._connections.set_log(context.peer(), request.engine_address)
        return super().Handshake(request, context)

    def Attach(self, request: Any, context: Any) -> Any:
        """Attach an engine, and record the address of its log."""
        self._connections.set_log(context.peer(), request.address)
        return super().Attach(request, context)

    def CheckConfig(self, request: Any, context: Any) -> Any:
        """Reject provider configuration that the official provider does not have."""
        failures = [
            provider_pb2.CheckFailure(property=key, reason=f"{key}: is not a setting of gcp")
            for key in settings.unknown_keys(rpc.plain(request.news))
        ]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def Configure(self, request: Any, context: Any) -> Any:
        """Store the configuration of one provider object."""
        arguments = _values(request.args)
        for key, value in request.variables.items():
            arguments.setdefault(key.rpartition(":")[2], value)
        parsed = settings.parse(arguments)
        if settings.lacks_project(parsed):
            self._connections.warn(context.peer(), settings.NO_PROJECT)
        known = {key: value for key, value in parsed.items() if not is_unknown(value)}
        self._connections.set(context.peer(), known)
        return provider_pb2.ConfigureResponse(
            acceptSecrets=False, supportsPreview=True, acceptResources=False, acceptOutputs=False
        )

    def Check(self, request: Any, context: Any) -> Any:
        """Reject invalid inputs, and return valid ones with name and defaults."""
        token = _token(request.urn)
        known = resource(token)
        inputs = _values(request.news)
        if known is None:
            reason = f"unknown resource type {token}: the installed pulumi_gcp does not have it"
            failure = provider_pb2.CheckFailure(property="", reason=reason)
            return provider_pb2.CheckResponse(inputs=request.news, failures=[failure])
        named = self._name(known, request, inputs)
        old = strip_secrets(rpc.plain(request.olds))
        failures = validate_inputs(token, inputs, old)
        if failures:
            found = [_check_failure(failure) for failure in failures]
            return provider_pb2.CheckResponse(inputs=request.news, failures=found)
        filled = fill_in(known, inputs, old, named)
        return provider_pb2.CheckResponse(inputs=self._struct(known, filled))

    def _name(self, known: Resource, request: Any, inputs: Json) -> str | None:
        """Name a resource if it needs a name, and return the property with the name."""
        auto = known.autoname
        if auto is None or inputs.get(auto.field) is not None or inputs.get("namePrefix"):
            return None
        logical = _logical_name(request.urn)
        old = _values(request.olds).get(auto.field)
        if isinstance(old, str) and auto.pattern(logical).fullmatch(old):
            inputs[auto.field] = old
            return auto.field
        if request.HasField("autonaming"):
            mode = request.autonaming.mode
            options = provider_pb2.CheckRequest.AutonamingOptions
            if mode == options.DISABLE:
                return None
            inputs[auto.field] = request.autonaming.proposed_name
            return auto.field

        def is_taken(name: str) -> bool:
            return self._world.store.has_name(known.token, name)

        inputs[auto.field] = autonamed(auto, logical, request.urn, is_taken)
        return auto.field

    def Diff(self, request: Any, context: Any) -> Any:
        """Return the differences, and which of them replace the resource."""
        known = self._known(request, context)
        old, new = _values(request.olds), _values(request.news)
        self._world.store.acknowledge(known.token, request.id)
        add_when_needed(known, new)
        found = diff.changes(known, old, new, tuple(request.ignoreChanges))
        response = provider_pb2.DiffResponse(hasDetailedDiff=True)
        response.changes = response.DIFF_SOME if found else response.DIFF_NONE
        for change in found:
            kind = _DIFF_KINDS[change.kind, change.replaces]
            response.detailedDiff[change.path].CopyFrom(_KINDS(kind=kind, inputDiff=False))
        response.diffs.extend(sorted({_top(change.path) for change in found}))
        response.replaces.extend(sorted({_top(item.path) for item in found if item.replaces}))
        if response.replaces:
            explicit = diff.has_explicit_name(known, _logical_name(request.urn), new)
            response.deleteBeforeReplace = explicit or known.delete_before_replace
        return response

    def Create(self, request: Any, context: Any) -> Any:
        """Create a resource, or preview it."""
        known = self._known(request, context)
        inputs = _values(request.properties)
        configured = self._settings(context)
        if request.preview:
            outputs = planned(known, inputs, {}, configured)
            return provider_pb2.CreateResponse(properties=self._struct(known, outputs))
        try:
            started = self.lifecycle.create(known, request.urn, inputs, configured)
            done = self._finish(started, context)
        except CloudError as error:
            self._abort(context, f"creating {_logical_name(request.urn)}", error)
        except Exception as error:  # noqa: BLE001 - the engine needs one clear line
            self._fail(context, f"creating {_logical_name(request.urn)}", error)
        else:
            properties = self._struct(known, done["outputs"])
            self._witness.told(context.peer(), known.token, str(done["id"]))
            return provider_pb2.CreateResponse(id=done["id"], properties=properties)

    def Read(self, request: Any, context: Any) -> Any:
        """Return the current state of a resource, or nothing if it was deleted."""
        known = self._known(request, context)
        record = self._find(known, request.id, self._settings(context))
        if record is not None:
            record = self.lifecycle.settle(record, context)
        if record is None or not effect_of(known.kind).exists(self._world, record):
            if record is not None:
                self._world.store.remove(record.type, record.id)
            return provider_pb2.ReadResponse()
        self._world.store.acknowledge(known.token, record.id)
        return provider_pb2.ReadResponse(
            id=record.id,
            properties=self._struct(known, record.outputs),
            inputs=rpc.to_struct(with_lists(record.inputs, rpc.plain(request.inputs))),
        )

    def _find(self, known: Resource, wanted: str, configured: Json) -> Record | None:
        store = self._world.store
        found = store.get(known.token, wanted) or store.get(known.token, relative_path(wanted))
        if found is not None:
            return found
        tail = [part for part in wanted.split("/") if part]
        for record in store.find(known.token, last_segment(wanted)):
            parts = record.id.split("/")
            in_project = record.project in ("", configured.get("project"), *tail)
            if in_project and all(part in parts for part in tail):
                return record
        return None

    def Update(self, request: Any, context: Any) -> Any:
        """Update a resource, or preview the update."""
        known = self._known(request, context)
        old, new = _values(request.olds), _values(request.news)
        configured = self._settings(context)
        outputs = planned(known, new, old, configured)
        try:
            check_fixed(known, old, new)
            if known.token == SUBNETWORK:
                check_used_ranges(old, outputs, self._clusters())
        except CloudError as error:
            self._abort(context, f"updating {request.id}", error)
        if request.preview:
            outputs |= dict.fromkeys(unknown_until_applied(known, old, new), UNKNOWN)
            return provider_pb2.UpdateResponse(properties=self._struct(known, outputs))
        try:
            record = self._world.store.get(known.token, request.id)
            record = None if record is None else self.lifecycle.settle(record, context)
            if record is None:
                raise CloudError(404, f"The resource '{request.id}' was not found", "notFound")
            self._world.store.acknowledge(known.token, request.id)
            done = self._finish(self.lifecycle.update(known, record, new, configured), context)
        except CloudError as error:
            self._abort(context, f"updating {request.id}", error)
        except Exception as error:  # noqa: BLE001 - the engine needs one clear line
            self._fail(context, f"updating {request.id}", error)
        else:
            return provider_pb2.UpdateResponse(properties=self._struct(known, done["outputs"]))

    def _clusters(self) -> list[Json]:
        """Return the outputs of all clusters."""
        return [record.outputs for record in self._world.store.find(CLUSTER)]

    def Delete(self, request: Any, context: Any) -> Any:
        """Delete a resource; ignore a missing one."""
        known = self._known(request, context)
        try:
            record = self._world.store.get(known.token, request.id)
            if record is not None and record.status != "deleting":
                record = self.lifecycle.settle(record, context)
            if record is not None:
                started = self.lifecycle.delete(known, record)
                if started is not None:
                    self._finish(started, context)
        except CloudError as error:
            self._abort(context, f"deleting {request.id}", error)
        except Exception as error:  # noqa: BLE001 - the engine needs one clear line
            self._fail(context, f"deleting {request.id}", error)
        return rpc.empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:
        """Call a function of the provider."""
        arguments = _values(request.args)
        try:
            found = functions.call(
                request.tok, arguments, self._settings(context), self._world.store
            )
        except functions.FunctionError as error:
            failure = provider_pb2.CheckFailure(property=error.path, reason=str(error))
            return provider_pb2.InvokeResponse(failures=[failure])
        except CloudError as error:
            self._abort(context, request.tok, error)
        else:
            response = provider_pb2.InvokeResponse()
            getattr(response, "return").CopyFrom(rpc.to_struct(found))
            return response

    def _settings(self, context: Any) -> Json:
        return self._connections.get(context.peer())

    @staticmethod
    def _known(request: Any, context: Any) -> Resource:
        token = _token(request.urn)
        known = resource(token)
        if known is None:
            context.abort(_STATUS.INVALID_ARGUMENT, f"unknown resource type {token}")
            raise AssertionError  # abort does not return
        return known

    @staticmethod
    def _struct(known: Resource, outputs: Json) -> Any:
        return rpc.to_struct(with_secrets(known, outputs))

    @staticmethod
    def _finish(started: Operation | Record, context: Any) -> Json:
        if isinstance(started, Record):
            return {"id": started.id, "outputs": started.outputs}
        return started.wait(context)

    @staticmethod
    def _abort(context: Any, what: str, error: CloudError) -> None:
        context.abort(_CODES.get(error.status, _STATUS.FAILED_PRECONDITION), f"{what}: {error}")

    @staticmethod
    def _fail(context: Any, what: str, error: Exception) -> None:
        if isinstance(error, EngineGoneError):
            context.abort(_STATUS.CANCELLED, "the engine disconnected; the operation continues")
        _log.error("%s", what, exc_info=error)
        context.abort(_STATUS.INTERNAL, f"{what}: the twin failed: {error}")


def _check_failure(failure: Failure) -> Any:
    return provider_pb2.CheckFailure(property=failure.path, reason=str(failure))


def _top(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]
