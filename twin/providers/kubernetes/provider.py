"""The kubernetes resource provider: the engine's calls, per connection."""

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version as installed_version
from typing import Any, ParamSpec

from twin.providers.kubernetes import deleting
from twin.providers.kubernetes import settings as provider_settings
from twin.providers.kubernetes.manifests import (
    applying,
    differ,
    fields,
    kinds,
    live,
    managers,
    naming,
    objects,
)
from twin.providers.kubernetes.manifests.errors import InvalidInput, NotReady, ProviderError
from twin.providers.kubernetes.manifests.immutable import replacing_paths
from twin.providers.kubernetes.sessions import Session, Sessions
from twin.providers.kubernetes.settings import Settings
from twin.providers.kubernetes.waits import check_of, limit_of, loop
from twin.wire import rpc
from twin.wire.kube import JsonObject, KubeError
from twin.wire.property_values import UNKNOWN, has_unknown, strip_secrets

pb = rpc.provider_pb2
_status_pb2: Any = importlib.import_module("pulumi.runtime.proto.status_pb2")
_UNKNOWN_CODE = 2
_Call = ParamSpec("_Call")


def _report_errors(method: Callable[_Call, Any]) -> Callable[_Call, Any]:
    """Report failures to the engine as messages instead of tracebacks."""

    @functools.wraps(method)
    def call(*args: _Call.args, **kwargs: _Call.kwargs) -> Any:
        try:
            return method(*args, **kwargs)
        except KubeError as error:
            message = str(error)
        except ProviderError as error:
            message = str(error)
        context: Any = args[2]
        context.abort(rpc.grpc_module.StatusCode.UNKNOWN, message)
        return None

    return call


class KubernetesProvider(rpc.BaseProvider):
    """Kubernetes objects with server-side apply, as in the official provider."""

    version = installed_version("pulumi-kubernetes")

    def __init__(
        self,
        settle_seconds: Callable[[], float] = lambda: 0.0,
        kind_seconds: Callable[[], float] = lambda: applying.MISSING_SECONDS,
    ) -> None:
        """Start without a connection.

        Args:
            settle_seconds: returns the time for which a Service's endpoints must be unchanged;
                called at each wait, because the speed of the twin's clock can change.
            kind_seconds: returns how long a creation waits for a kind that nobody defined.
        """
        self._kind_seconds = kind_seconds
        self._settle_seconds = settle_seconds
        self._sessions = Sessions()

    def _session(self, context: Any) -> Session:
        return self._sessions.of(context.peer())

    # ---- the provider itself
    def Handshake(self, request: Any, context: Any) -> Any:
        """Negotiate the protocol; keep secrets, so that outputs derived from them remain secret."""
        self._session(context).log.connect(request.engine_address)
        return pb.ProviderHandshakeResponse(accept_secrets=True)

    def Attach(self, request: Any, context: Any) -> Any:
        """Attach an engine, and record the address of its log."""
        self._session(context).log.connect(request.address)
        return rpc.empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        """Check the provider's arguments."""
        args = strip_secrets(rpc.plain(request.news))
        failures = [_failure(error) for error in provider_settings.check(args)]
        return pb.CheckResponse(inputs=request.news, failures=failures)

    @_report_errors
    def DiffConfig(self, request: Any, context: Any) -> Any:
        """Return the differences; a change of the cluster replaces all objects."""
        old = strip_secrets(rpc.plain(request.olds))
        new = strip_secrets(rpc.plain(request.news))
        changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
        replaces = replacing_arguments(old, new, changed)
        return pb.DiffResponse(
            changes=pb.DiffResponse.DIFF_SOME if changed else pb.DiffResponse.DIFF_NONE,
            diffs=changed,
            replaces=replaces,
        )

    @_report_errors
    def Configure(self, request: Any, context: Any) -> Any:
        """Store the arguments of one provider instance."""
        args = strip_secrets(rpc.plain(request.args))
        self._session(context).configure(Settings.of(args))
        return pb.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    def Cancel(self, request: Any, context: Any) -> Any:
        """End every wait of this provider instance."""
        self._session(context).cancel()
        return rpc.empty_pb2.Empty()

    # ---- objects
    @_report_errors
    def Check(self, request: Any, context: Any) -> Any:
        """Complete and check inputs: API version, kind, name, namespace."""
        session = self._session(context)
        inputs = rpc.plain(request.news)
        old = strip_secrets(rpc.plain(request.olds))
        token, name = type_and_name(request.urn)
        try:
            gvk = kinds.check(token, inputs.get("apiVersion"), inputs.get("kind"))
            complete(inputs, gvk)
        except InvalidInput as error:
            return pb.CheckResponse(inputs=request.news, failures=[_failure(error)])
        autonaming = request.autonaming if request.HasField("autonaming") else None
        naming.assign(inputs, old, name, request.randomSeed, autonaming)
        namespace = session.settings.namespace if session.settings else ""
        metadata = inputs["metadata"]
        if namespace and metadata != UNKNOWN and kinds.is_namespaced(gvk) is not False:
            metadata.setdefault("namespace", namespace)
        return pb.CheckResponse(inputs=rpc.to_struct(inputs))

    @_report_errors
    def Diff(self, request: Any, context: Any) -> Any:
        """Compare inputs with those of the last update, or with the result of a refresh."""
        session = self._session(context)
        old = strip_secrets(rpc.plain(request.old_inputs))
        new = strip_secrets(rpc.plain(request.news))
        options = session.settings or Settings()
        difference = differ.compare(
            old,
            new,
            replacing=replacing_paths(
                new,
                mutable_config_maps=options.mutable_config_maps,
                mutable_secrets=options.mutable_secrets,
            ),
            ignored=[fields.parse(path) for path in request.ignoreChanges],
        )
        detailed = {
            fields.render(change.path): pb.PropertyDiff(kind=_detail(change), inputDiff=True)
            for change in difference.changes
        }
        return pb.DiffResponse(
            changes=pb.DiffResponse.DIFF_SOME if detailed else pb.DiffResponse.DIFF_NONE,
            replaces=difference.replaces,
            deleteBeforeReplace=difference.delete_before_replace,
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    @_report_errors
    def Create(self, request: Any, context: Any) -> Any:
        """Create an object and wait until it is ready; in a preview, do a dry run if possible."""
        session, inputs = self._session(context), rpc.plain(request.properties)
        obj = objects.to_object(inputs)
        how = session.how(obj, {})
        if request.preview:
            return pb.CreateResponse(properties=self._preview(session, inputs, obj, how))
        stop = session.new_call(context)
        tell = functools.partial(session.log.status, request.urn)
        how = replace(how, kind_seconds=self._kind_seconds())
        made = applying.create(session.kube(), obj, how, stop, tell)
        state = _State(inputs, how.manager)
        made = self._ready(session, request, context, made, state)
        return pb.CreateResponse(id=objects.identifier(made), properties=state.outputs(made))

    @_report_errors
    def Update(self, request: Any, context: Any) -> Any:
        """Update an object and wait until it is ready; in a preview, do a dry run if possible."""
        session, inputs = self._session(context), rpc.plain(request.news)
        obj, old = objects.to_object(inputs), strip_secrets(rpc.plain(request.olds))
        how = session.how(obj, old)
        ignored = [fields.parse(path) for path in request.ignoreChanges]
        if request.preview:
            properties = self._preview(session, inputs, obj, how, ignored, created=False)
            return pb.UpdateResponse(properties=properties)
        stop = session.new_call(context)
        tell = functools.partial(session.log.status, request.urn)
        kube = session.kube()
        made = applying.update(kube, obj, how, ignored=ignored, stop=stop, tell=tell)
        state = _State(inputs, how.manager, str(old.get(objects.INITIAL_VERSION) or ""))
        made = self._ready(session, request, context, made, state, is_update=True)
        before = managers.manager_of(old.get("__inputs") or {}, old)
        if old.get(managers.STATE_KEY) and before != how.manager:
            managers.relinquish(kube, made, before)
        return pb.UpdateResponse(properties=state.outputs(made))

    def _preview(
        self,
        session: Session,
        inputs: JsonObject,
        obj: JsonObject,
        how: applying.How,
        ignored: list[fields.Path] | None = None,
        *,
        created: bool = True,
    ) -> Any:
        """Return the outputs of a preview: those of a dry run if there is one, or the inputs."""
        kube = None if has_unknown(inputs) else session.kube_if_reachable()
        if kube is None:
            return rpc.to_struct(inputs)
        result = applying.dry_run(kube, obj, how, ignored=ignored or [], created=created)
        if result is None:
            return rpc.to_struct(inputs)
        shown = applying.preview_of(result, created=created)
        return _State(inputs, how.manager).outputs(shown)

    def _ready(
        self,
        session: Session,
        request: Any,
        context: Any,
        made: JsonObject,
        state: "_State",
        *,
        is_update: bool = False,
    ) -> JsonObject:
        """Wait for a written object; report its state to the engine on failure."""
        check = check_of(made, self._settle_seconds(), is_update=is_update)
        if check is None:
            return made
        seconds = limit_of(made, loop.limit_seconds(made, request.timeout, loop.READY_SECONDS))
        tell = functools.partial(session.log.status, request.urn)
        stop = session.new_call(context)
        try:
            return loop.until_ready(session.kube(), made, check, seconds, stop, tell)
        except NotReady as error:
            _abort_not_ready(context, error, state)
            raise

    @_report_errors
    def Read(self, request: Any, context: Any) -> Any:
        """Read an object for an import or a refresh; return nothing if it does not exist."""
        session = self._session(context)
        options = session.settings or Settings()
        inputs = rpc.plain(request.inputs)
        obj = self._identity(request, objects.to_object(inputs))
        kube = session.kube_if_reachable()
        if kube is None and options.delete_unreachable:
            session.log.warn(request.urn, "the cluster cannot be reached: forgotten")
            return pb.ReadResponse()
        if kube is None and options.skip_update_unreachable:
            session.log.warn(request.urn, "the cluster cannot be reached: left as it was")
            return pb.ReadResponse(
                id=request.id, properties=request.properties, inputs=request.inputs
            )
        found = applying.read(session.kube(), obj)
        if found is None:
            return pb.ReadResponse()
        shown = (
            live.shaped(found, objects.to_object(inputs)) if inputs else objects.as_inputs(found)
        )
        now = objects.to_inputs(shown, inputs)
        old = strip_secrets(rpc.plain(request.properties))
        manager = managers.manager_of(objects.to_object(inputs), old)
        return pb.ReadResponse(
            id=objects.identifier(found),
            properties=_State(now, manager, str(old.get(objects.INITIAL_VERSION) or "")).outputs(
                found
            ),
            inputs=rpc.to_struct(now),
        )

    @_report_errors
    def Delete(self, request: Any, context: Any) -> Any:
        """Delete an object and wait until it is deleted."""
        session = self._session(context)
        options = session.settings or Settings()
        properties = objects.to_object(rpc.plain(request.properties))
        obj = self._identity(request, properties)
        kube = session.kube_if_reachable()
        if kube is None and options.delete_unreachable:
            session.log.warn(request.urn, "the cluster cannot be reached: forgotten")
            return rpc.empty_pb2.Empty()
        deleting.delete(
            session.kube(),
            obj,
            custom_seconds=request.timeout,
            stop=session.new_call(context),
            tell=functools.partial(session.log.status, request.urn),
        )
        return rpc.empty_pb2.Empty()

    @staticmethod
    def _identity(request: Any, obj: JsonObject) -> JsonObject:
        """Return an object with the identity from its ID and type."""
        namespace, name = objects.split_identifier(request.id)
        gvk = kinds.of_type(type_and_name(request.urn)[0])
        metadata = {**fields.section(obj, "metadata"), "name": name}
        if namespace:
            metadata["namespace"] = namespace
        return {"apiVersion": gvk.api_version, "kind": gvk.kind, **obj, "metadata": metadata}

    # ---- unsupported calls
    @_report_errors
    def Construct(self, request: Any, context: Any) -> Any:
        """Reject components, which only the official provider implements."""
        raise ProviderError(
            f"{request.type}: is a component of the official provider, which the twin does not "
            "have; use CustomResource or the typed resources"
        )

    @_report_errors
    def Invoke(self, request: Any, context: Any) -> Any:
        """Reject functions, which render charts and files."""
        raise ProviderError(f"{request.tok}: the twin has no functions of this provider")


def type_and_name(urn: str) -> tuple[str, str]:
    """Return the type token and the logical name in a URN."""
    parts = urn.split("::", 3)
    return parts[2].rpartition("$")[2], parts[3]


def complete(inputs: JsonObject, gvk: kinds.GroupVersionKind) -> None:
    """Add API version and kind to inputs, and check the shape of their metadata.

    Raises:
        InvalidInput: the metadata is not a mapping.
    """
    inputs["apiVersion"], inputs["kind"] = gvk.api_version, gvk.kind
    metadata: Any = inputs.get("metadata")
    if metadata is None:
        inputs["metadata"] = {}
    elif not isinstance(metadata, dict) and metadata != UNKNOWN:
        raise InvalidInput("metadata", f"must be a mapping, got {metadata!r}")


def replacing_arguments(old: JsonObject, new: JsonObject, changed: list[str]) -> list[str]:
    """Return the provider arguments whose change replaces every object of the provider.

    As in the official provider, these are changes to another cluster or to a kubeconfig that is not
    known yet. With a `clusterIdentifier`, only a change of the identifier replaces the objects.
    """
    identifier = "clusterIdentifier"
    if old.get(identifier) and new.get(identifier):
        return [identifier] if identifier in changed else []
    where = [key for key in ("kubeconfig", "context", "cluster") if key in changed]
    if any(new.get(key) == UNKNOWN for key in where):
        return where
    try:
        before = provider_settings.active_cluster(Settings.of(old))
        after = provider_settings.active_cluster(Settings.of(new))
    except InvalidInput:
        return []
    return where if before is not None and after is not None and before != after else []


def _failure(error: InvalidInput) -> Any:
    return pb.CheckFailure(property=error.property_path, reason=error.reason)


def _detail(change: differ.Change) -> Any:
    name = change.kind.upper() + ("_REPLACE" if change.replaces else "")
    return pb.PropertyDiff.Kind.Value(name)


@dataclass(frozen=True)
class _State:
    """State that the engine stores with an object."""

    inputs: JsonObject
    """Inputs with secret wrappers."""
    manager: str
    initial_version: str = ""

    def outputs(self, live: JsonObject) -> Any:
        """Return the outputs for the engine."""
        return rpc.to_struct(
            objects.to_outputs(live, self.inputs, self.manager, self.initial_version)
        )


def _abort_not_ready(context: Any, error: NotReady, state: _State) -> None:
    """End a call so that the engine records the object with the errors in the trailing metadata."""
    detail = pb.ErrorResourceInitFailed(
        id=objects.identifier(error.live),
        properties=state.outputs(error.live),
        reasons=[str(error)],
        inputs=rpc.to_struct(state.inputs),
    )
    status = _status_pb2.Status(code=_UNKNOWN_CODE, message=str(error))
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(rpc.grpc_module.StatusCode.UNKNOWN, str(error))
