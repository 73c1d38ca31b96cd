"""One pod that the agent runs in its own thread, from its address to its deletion."""

import logging
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from twin.cluster.agent import lifecycle, names, records, status, views
from twin.cluster.agent.config_versions import ConfigVersions
from twin.cluster.agent.container import Container, tick_all
from twin.cluster.agent.identity import write_kubeconfig
from twin.cluster.agent.images import Images
from twin.cluster.agent.launch import plan
from twin.cluster.agent.launching import hardware
from twin.cluster.agent.launching.bucket_access import check_access
from twin.cluster.agent.launching.claims import Kind, kind_of, sidecars
from twin.cluster.agent.launching.environment import ConfigError, Sources, variables
from twin.cluster.agent.launching.file_shares import share_folder
from twin.cluster.agent.launching.fuse_profiles import check_profile
from twin.cluster.agent.launching.google_access import GoogleAccess, access_of
from twin.cluster.agent.launching.interfaces import InitializingError, network_of_pod
from twin.cluster.agent.launching.place import Launch, Place
from twin.cluster.agent.launching.tokens import api_server
from twin.cluster.agent.launching.volumes import MountError, Volumes, is_refreshed
from twin.cluster.agent.limits import Limits
from twin.cluster.base import podports
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part
from twin.cluster.base.reports import pod_event
from twin.cluster.base.traces import collector_address
from twin.cluster.devices.preparing import PreparingError, prepared
from twin.cluster.services import connections
from twin.cluster.services import proxy as service_proxy
from twin.host.paths import REPOSITORY
from twin.wire.kube import JsonObject, KubeError
from twin.world.disk_contents import NoDiskError, disk_folder
from twin.world.image_names import missing_in

_log = logging.getLogger("twin.cluster.agent")
_GRACE_SECONDS = 30.0  # the default of Kubernetes
_RETRY_SECONDS = 1.0
_SERVERS = (Kind.ENGINE, Kind.IMAGES)
_SAME_EVENT_SECONDS = 30.0
_REFRESH_FLOOR_SECONDS = 1.0


class PodRunner:
    """Runs one pod.

    Args:
        context: The cluster.
        pod: Scheduled pod from the API server; it has an address unless it is being deleted.
        node: Node of the pod.
        images: Images that nodes have pulled.
        configs: Versions of the ConfigMaps and Secrets that its volumes may refer to.
    """

    def __init__(
        self,
        context: ClusterContext,
        pod: JsonObject,
        node: JsonObject,
        images: Images,
        configs: ConfigVersions,
    ) -> None:
        self._context = context
        # None: deleted before KWOK assigned an address; it only has to be removed
        self._address: str | None = pod.get("status", {}).get("podIP")
        self._pod = pod
        self._node = node
        self._images = images
        self._configs = configs
        metadata = pod["metadata"]
        self.uid: str = metadata["uid"]
        self.namespace: str = metadata["namespace"]
        self.name: str = metadata["name"]
        self.node_name: str = pod["spec"]["nodeName"]
        self._path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self.folder = context.dir / "pods" / self.namespace / self.uid
        self._containers: list[Container] = []
        self._sent: JsonObject = {}
        self._started = time.time()
        self._announced: set[str] = set()
        self._reported: dict[tuple[str, str], float] = {}
        self._stop = threading.Event()
        self._deleted = threading.Event()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._gone = False
        self._limits = Limits(pod, self.folder)
        self._volumes: Volumes | None = None
        self._refresh_at = 0.0
        self._refreshed: tuple[str, ...] | None = None
        """Versions of the objects that the current files were written from."""
        self._thread = threading.Thread(target=self._run, name=f"pod-{self.name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def update(self, pod: JsonObject) -> None:
        """Accept a newer version of the pod."""
        if self._address is not None and pod.get("status", {}).get("podIP") != self._address:
            pod = {**pod, "status": {**pod.get("status", {}), "podIP": self._address}}
            self._sent = {}  # KWOK assigned a second address: report the bound one again
            self._wake.set()
        self._keep(pod)
        if pod["spec"].get("readinessGates"):  # others write the conditions that they name
            self._wake.set()
        if status.is_deleted(pod):
            self._deleted.set()
            self._wake.set()

    def lose(self) -> None:
        """End immediately, because the pod or its node is gone."""
        self._gone = True
        self._deleted.set()
        self._wake.set()

    def leave(self) -> None:
        """Stop managing the pod, and leave its processes running."""
        self._stop.set()
        self._wake.set()

    def join(self, timeout: float) -> None:
        """Wait until the thread ends."""
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            if self._prepare():
                self._loop()
            if self._deleted.is_set():
                self._end()
        except Exception:  # noqa: BLE001  # the log says which pod; others go on
            _log.exception("pod %s/%s", self.namespace, self.name)

    def _keep(self, pod: JsonObject) -> None:
        """Keep a version; a response may come after the event of a deletion that it precedes."""
        with self._lock:
            if status.is_deleted(pod) or not status.is_deleted(self._pod):
                self._pod = pod

    # -- start

    def _prepare(self) -> bool:
        """Prepare volumes, arguments and identity, with retries; return False if given up."""
        self.folder.mkdir(parents=True, exist_ok=True)
        while not self._stop.is_set() and not self._deleted.is_set():
            try:
                self._containers = self._make_containers()
            except (MountError, PreparingError) as error:
                is_claim = isinstance(error, PreparingError)
                reason = "FailedPrepareDynamicResources" if is_claim else "FailedMount"
                self._waiting("ContainerCreating", "")
                self._event("Warning", reason, str(error))
                self._pause()
                continue
            except InitializingError as error:
                self._waiting("PodInitializing", "")
                self._event("Warning", "Unhealthy", str(error))
                self._pause()
                continue
            except (ConfigError, KubeError) as error:
                self._not_yet("CreateContainerConfigError", error)
                continue
            except Exception as error:  # noqa: BLE001 - such as a tool that is not built
                _log.exception("pod %s/%s", self.namespace, self.name)
                self._not_yet("CreateContainerError", error)
                continue
            views.write_pod(self.folder, self._pod)
            adopted = [container.adopt() for container in self._containers]
            return any(adopted) or self._pull()
        return False

    def _pause(self) -> None:
        """Wait before another attempt; a change of the pod ends the wait."""
        self._wake.wait(_RETRY_SECONDS)
        self._wake.clear()

    def _not_yet(self, reason: str, error: Exception | str, image: str = "") -> None:
        """Report why the containers cannot be created, and wait before the next attempt."""
        self._waiting(reason, str(error), image)
        self._event("Warning", "Failed", f"Error: {error}")
        self._pause()

    def _disk(self, handle: str) -> Path:
        """Return the folder of a disk that the pod's node attaches.

        Raises:
            ConfigError: The zone of the node has no such disk.
        """
        zone = part(self._node, "metadata", "labels").get("topology.kubernetes.io/zone", "")
        try:
            return disk_folder(self._context.paths, handle, zone)
        except NoDiskError as error:
            raise ConfigError(str(error)) from error

    def _google(self) -> GoogleAccess:
        """Return what the pod does not reach of Google, and report each reason once."""
        found = access_of(self._context, self._pod)
        subject = f"{self.namespace}/{self.name}"
        for reason in filter(None, (found.apis, found.metadata)):
            if reason not in self._announced:
                self._announced.add(reason)
                _log.warning("dropped: %s", reason)
                self._context.events.emit("pod.dropped", subject, reason)
        return found

    def _check_bucket(self, google: GoogleAccess, bucket: str) -> None:
        """Reject the mount of a bucket that the pod does not reach or may not list.

        Raises:
            ConfigError: It does not or may not.
        """
        if not records.in_folder(self.folder):  # adopted pods have their mounts
            google.check_mount()
        check_access(self._context.paths, self._context.spec.project, self._pod, bucket)

    def _make_containers(self) -> list[Container]:
        kube, spec = self._context.kube, self._pod["spec"]
        node = hardware.of_node(self._node)
        google = self._google()
        volumes = Volumes(
            kube,
            self._pod,
            self.folder,
            self._context.paths.volumes,
            partial(share_folder, self._context.paths, self._context.spec.name, kind=node.kind),
            partial(check_profile, self._context.paths, self._context.spec.name),
            partial(self._check_bucket, google),
            self._disk,
        )
        folders = volumes.make()
        self._volumes = volumes if is_refreshed(self._pod) else None
        self._refresh_at = time.monotonic() + self._refresh_seconds()
        kubeconfig = self.folder / "kubeconfig"
        claimed = prepared(kube, self._pod, self._node)
        if claimed.chips is not None:  # it sees only the devices of its claim
            node = hardware.NodeHardware(claimed.chips[0], node.accelerator, claimed.chips[1])
        network = "rdma" if claimed.interfaces else network_of_pod(kube, self._pod, self._node)
        if network is not None:
            node = replace(node, network=network)
        moved = podports.read(self._context.dir, self.namespace, self.name)
        out: list[Container] = []
        for container in [*sidecars(self._pod), *spec["containers"]]:
            place = Place(
                self._pod,
                node,
                volumes.mounts(container, folders),
                {
                    **api_server(kube),
                    **variables(self._pod, container, Sources(kube, self.namespace)),
                },
                kubeconfig,
                self._context.rules,
                self._context.tool,
                collector_address(self._context.dir),
                service_proxy.environment(self._context.dir, self._pod),
                names.file_in(self._context.dir),
                self._context.paths.root,
                self._context.spec.project,
                connections.address_in(self._context.dir),
            )
            launch = plan(container, place)
            launch = replace(launch, environment=google.applied(launch.environment))
            if launch.needs_kubeconfig:
                write_kubeconfig(kube, self._context.kubeconfig, self._pod, kubeconfig)
            running = records.read(self.folder / f"{container['name']}.process.json")
            if launch.ports and (running is None or not running.alive):
                moved |= launch.ports
            out.append(self._container(container, launch, place))
        if moved:
            podports.write(self._context.dir, self.namespace, self.name, moved)
        return out

    def _container(self, spec: JsonObject, launch: Launch, place: Place) -> Container:
        kept = views.kept_mounts((self._context.paths.root, REPOSITORY))
        log = f"{self.namespace}_{self.name}_{spec['name']}.log"
        return Container(
            spec,
            launch,
            self.folder,
            self._context.dir / "logs" / "pods" / log,
            spec.get("restartPolicy") or self._pod["spec"].get("restartPolicy", "Always"),
            self._context.rules,
            lambda port: self._target(spec, port),
            self._event,
            hardware.driver_check(self._context.kube, self._node),
            views.view_of(self._pod, spec, [*place.mounts, *kept], place.variables),
            self._wake.set,
        )

    def _target(self, spec: JsonObject, port: int | str) -> tuple[str, int]:
        named = {entry.get("name"): entry["containerPort"] for entry in spec.get("ports", [])}
        return podports.resolve(self._context.dir, self._pod, int(named.get(port, port)))

    def _pull(self) -> bool:
        """Pull the images; return False if one does not exist and the pod was deleted."""
        spec = self._pod["spec"]
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            image = container["image"]
            where = self._context.paths, self._context.spec.project
            while problem := missing_in(image, *where):
                self._not_yet("ImagePullBackOff", problem, image)
                if self._stop.is_set() or self._deleted.is_set():
                    return False
            seconds = self._images.pull_seconds(image, self._node)
            if seconds:
                self._event("Normal", "Pulling", f'Pulling image "{image}"')
                self._deleted.wait(seconds / self._context.rules.speed)
                text = f'Successfully pulled image "{image}" in {seconds:.1f}s'
                self._event("Normal", "Pulled", text)
            self._images.keep(image, self._node)
        return True

    def _waiting(self, reason: str, message: str, image: str = "") -> None:
        self._patch(status.waiting(self._pod, reason, message, image))

    # -- running

    def _loop(self) -> None:
        while not self._stop.is_set() and not self._deleted.is_set():
            try:
                self._move_on()
            except Exception:  # noqa: BLE001 - such as a probe of a port that is not there
                _log.exception("pod %s/%s", self.namespace, self.name)
                self._stop.wait(_RETRY_SECONDS)
            self._wake.wait(max(0.05, self._next_due() - time.monotonic()))
            self._wake.clear()

    def _next_due(self) -> float:
        """Return the monotonic time by which a container, a limit or a volume is due."""
        due = [self._limits.due, *(container.next_due() for container in self._containers)]
        return min([*due, *([self._refresh_at] if self._volumes is not None else [])])

    def _refresh_seconds(self) -> float:
        return max(_REFRESH_FLOOR_SECONDS, self._context.rules.scaled("agent.volume.refresh"))

    def _refresh(self) -> None:
        if self._volumes is None or time.monotonic() < self._refresh_at:
            return
        self._refresh_at = time.monotonic() + self._refresh_seconds()
        versions = self._configs.of(self.namespace, self._volumes.references())
        if versions is not None and versions == self._refreshed:
            return
        try:
            self._volumes.refresh()
            self._refreshed = versions
        except (ConfigError, KubeError) as error:  # the files stay unchanged
            _log.debug("volumes of %s/%s: %s", self.namespace, self.name, error)

    def _move_on(self) -> None:
        self._refresh()
        grace = float(self._pod["spec"].get("terminationGracePeriodSeconds") or _GRACE_SECONDS)
        tick_all(self._containers, grace / self._context.rules.speed)
        self._limits.look(self._containers, grace / self._context.rules.speed)
        self._report()
        self._announce()

    def _report(self) -> None:
        self._patch(status.pod_status(self._pod, self._containers, self._started))

    def _patch(self, new: JsonObject) -> None:
        comparable = {**new, "conditions": [status.plain(c) for c in new.get("conditions", [])]}
        if comparable == self._sent:
            return
        try:
            path = f"{self._path}/status"
            self._keep(self._context.kube.patch(path, {"status": new}, type="strategic"))
            self._sent = comparable
        except KubeError as error:
            if error.status == 404:
                self.lose()
            else:
                _log.warning("status of %s/%s: %s", self.namespace, self.name, error)

    def _announce(self) -> None:
        """Write changes to the timeline."""
        subject = f"{self.namespace}/{self.name}"
        node: str = self._pod["spec"]["nodeName"]
        engines = [c for c in self._containers if kind_of(c.spec) in _SERVERS and c.launch.argv]
        facts = (
            ("engine.started", any(c.record for c in engines), "has its engine process"),
            ("pod.running", status.phase(self._containers) == "Running", "is running"),
            ("pod.ready", all(c.ready for c in self._containers), "is ready"),
        )
        for kind, holds, what in facts:
            if holds and kind not in self._announced:
                self._announced.add(kind)
                message = f"{subject} {what} on {node}"
                self._context.events.emit(kind, subject, message, node=node)

    # -- end

    def _end(self) -> None:
        grace = float(self._pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        running = [c.record for c in self._containers if c.record is not None and c.record.alive]
        running = running or records.in_folder(self.folder)
        if running and not self._gone:
            self._hooks(grace)
        last = {container["name"] for container in sidecars(self._pod)}
        beside = [c.record for c in self._containers if c.record is not None and c.name in last]
        seconds = 0.0 if self._gone else max(grace, 1.0)
        records.end([record for record in running if record not in beside], seconds)
        records.end(beside, seconds)  # sidecars end last, because responses pass through them
        subject = f"{self.namespace}/{self.name}"
        if "engine.started" in self._announced:
            self._context.events.emit("engine.stopped", subject, f"{subject}: engine ended")
        podports.remove(self._context.dir, self.namespace, self.name)
        if not self._gone and self._pod["spec"].get("restartPolicy") == "Never":
            for container in self._containers:
                container.end()
            self._patch(status.last_status(self._pod, self._containers, self._started))
        shutil.rmtree(self.folder, ignore_errors=True)
        if status.is_deleted(self._pod):
            self._finalise()

    def _hooks(self, grace: float) -> None:
        """Run preStop hooks in parallel, while the containers keep serving and being probed."""
        running = [container for container in self._containers if container.record is not None]
        lifecycle.pre_stop_all(
            running,
            self._pod["status"]["podIP"],
            self._context.rules.speed,
            grace,
            partial(names.addresses, self._context.dir),
        )

    def _finalise(self) -> None:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        with suppress(KubeError):  # 404, 409: already deleted by another client
            self._context.kube.delete(self._path, options)

    def _event(self, kind: str, reason: str, message: str) -> None:
        """Write an event; a repeated event is written only after an interval."""
        written = self._reported.get((reason, message), -_SAME_EVENT_SECONDS)
        if time.monotonic() - written < _SAME_EVENT_SECONDS:
            return
        self._reported[reason, message] = time.monotonic()
        event = pod_event(self._pod, "kubelet", kind, reason, message)
        event["source"]["host"] = self.node_name
        try:
            self._context.kube.post(f"/api/v1/namespaces/{self.namespace}/events", event)
        except KubeError as error:  # a terminating namespace accepts no events
            _log.debug("event for %s/%s: %s", self.namespace, self.name, error)
