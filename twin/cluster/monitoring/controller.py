"""The controller that configures a cluster's Prometheus from its monitoring objects.

It simulates the operator and the collector of Managed Prometheus: PodMonitoring and
ClusterPodMonitoring become scrape jobs; Rules, ClusterRules and GlobalRules become rule files. It
discovers pods and passes them in files, because their actual ports can differ
(`agent/podports.py`).
"""

import json
import logging
import threading
from pathlib import Path

import yaml

from gke_inference.catalogue.managed_prometheus import collectors_namespace
from twin.cluster.base import podports
from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, parts
from twin.cluster.base.informer import Informer
from twin.cluster.base.network_policies import lets_in, sent_by_pod
from twin.cluster.base.reports import timestamp
from twin.cluster.gateway.cluster_network import network_of
from twin.cluster.monitoring import (
    alert_policies,
    rule_files,
    scrape,
    system_jobs,
    targets,
    tokens,
)
from twin.cluster.monitoring.accelerator_memory import AcceleratorMemory
from twin.cluster.monitoring.durations import Clock
from twin.cluster.monitoring.gateways import admin_addresses, front_address, uptime_address
from twin.cluster.monitoring.kube_state_metrics import KubeStateMetrics
from twin.cluster.monitoring.promql import QueryError
from twin.cluster.monitoring.scrape import ConfigError
from twin.cluster.monitoring.server import PrometheusServer
from twin.providers.gcp.effects import pubsub
from twin.toolchain import wait_for
from twin.wire.kube import JsonObject, KubeError

_LOG = logging.getLogger(__name__)
_API = "/apis/monitoring.googleapis.com/v1"
_SCRAPED = ("podmonitorings", "clusterpodmonitorings")
_RULES = ("rules", "clusterrules", "globalrules")
_POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
_COLLECTOR = {"app.kubernetes.io/name": "collector"}
_REFUSES = ("127.0.0.1", 9)
"""Where a target is that NetworkPolicies close: nothing listens there, so its `up` is 0."""
_GATEWAYS = "/apis/gateway.networking.k8s.io/v1/gateways"
_LOOK_SECONDS = 2.0  # Envoy and moved ports come and go without an object that changes
_GATHER_SECONDS = 0.05


class Monitoring:
    """Prometheus and kube-state-metrics of one cluster; they outlive this process."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._wake = threading.Event()
        shortest = float(ctx.rules.value("monitoring.interval.shortest"))
        self._clock = Clock(ctx.rules.speed, shortest)
        self._server = PrometheusServer(ctx)
        self._kube_state = KubeStateMetrics(ctx)
        self._memory = AcceleratorMemory(ctx)
        self._pods = Informer(ctx.watches, "/api/v1/pods", self._wake)
        self._scraped = [Informer(ctx.watches, f"{_API}/{kind}", self._wake) for kind in _SCRAPED]
        self._rules = [Informer(ctx.watches, f"{_API}/{kind}", self._wake) for kind in _RULES]
        self._gateways = Informer(ctx.watches, _GATEWAYS, self._wake)
        self._policies = Informer(ctx.watches, _POLICIES, self._wake)
        self._enforces_policies = False
        self._closed: set[str] = set()
        """Ports that were reported as closed to the collectors."""
        self._scoped: dict[tuple[str, int], list[JsonObject] | ConfigError] = {}
        spec = ctx.spec
        self._labels = {
            "cluster": spec.name,
            "location": spec.location,
            "project_id": spec.project,
        }

    def run(self, stop: threading.Event) -> None:
        """Start both and reconcile them until `stop` is set."""
        if not wait_for("monitoring", stop):  # prepared beside the first deployment
            return
        own_stop = threading.Event()  # a controller that is started again has new informers
        try:
            watched = (self._pods, self._policies, self._gateways, *self._scraped, *self._rules)
            for informer in watched:
                informer.start(own_stop)
            self._memory.start()
            while not stop.is_set() and not all(one.synced.is_set() for one in watched):
                stop.wait(_GATHER_SECONDS)  # half a view would end what is scraped
            while not stop.is_set():
                self._kube_state.ensure()
                self._reconcile()
                self._wake.wait(_LOOK_SECONDS)
                stop.wait(_GATHER_SECONDS)
                self._wake.clear()
        finally:
            self._memory.stop()
            own_stop.set()

    def _reconcile(self) -> None:
        problems: list[tuple[JsonObject, str | None]] = []
        network = network_of(self._ctx.paths, self._ctx.spec)
        self._enforces_policies = network is not None and network.enforces_policies
        folder = str(self._server.folder / "targets")
        cluster = self._labels
        jobs = [
            system_jobs.kube_state_job(self._kube_state.address, self._clock, cluster),
            system_jobs.load_balancer_job(folder, self._clock),
            system_jobs.extra_job(folder, self._clock),
            system_jobs.accelerator_job(self._memory.address, self._clock),
        ]
        bus = pubsub.metrics_address(self._ctx.paths)
        if bus is not None:
            jobs.append(system_jobs.pubsub_job(bus, self._clock))
        uptime = uptime_address(self._ctx.paths)
        if uptime is not None:
            jobs.append(system_jobs.uptime_job(uptime, self._clock))
        wanted: dict[str, str] = {
            f"targets/{system_jobs.LOAD_BALANCER_FILE}": json.dumps(
                [
                    *system_jobs.load_balancer_targets(
                        admin_addresses(self._ctx.dir, self._gateways.items()), cluster
                    ),
                    *system_jobs.front_targets(
                        front_address(self._ctx.paths), self._ctx.spec.project
                    ),
                ]
            ),
            f"rules/{alert_policies.FILE}": _yaml(
                alert_policies.rule_file(self._ctx.paths, self._ctx.spec.project, self._clock)
            ),
            "rules/gke-system.yaml": _yaml(system_jobs.system_rules(self._clock)),
        }
        pods = self._pods.items()
        secrets: set[scrape.SecretKey] = set()
        for monitoring in _sorted(self._scraped):
            problem: str | None = None
            try:
                made = scrape.scrape_configs(
                    monitoring, self._clock, folder, str(self._server.tokens)
                )
                secrets |= scrape.secret_keys(monitoring)
                wanted |= self._targets(monitoring, list(made), pods)
                jobs += made.values()
            except ConfigError as error:
                problem = str(error)
            problems.append((monitoring, problem))
        files, about_rules = self._rule_files()
        wanted |= files
        wanted["prometheus.yml"] = self._config(jobs)
        tokens.write(self._ctx, self._server.tokens, secrets)
        changed = self._write(wanted)
        started = self._server.ensure()
        if not started and any(not name.startswith("targets/") for name in changed):
            self._reload()
        for item, problem in (*problems, *about_rules):
            self._report(item, problem)

    def _targets(
        self, monitoring: JsonObject, files: list[str], pods: list[JsonObject]
    ) -> dict[str, str]:
        meant = targets.selected_pods(monitoring, pods)
        endpoints: list[JsonObject] = monitoring["spec"]["endpoints"]
        return {
            f"targets/{file}": json.dumps(
                targets.targets_of(monitoring, endpoint, meant, self._resolve, self._labels),
                indent=1,
            )
            for file, endpoint in zip(files, endpoints, strict=True)
        }

    def _resolve(self, pod: JsonObject, port: int) -> tuple[str, int]:
        if not self._is_open(pod, port):
            return _REFUSES
        return podports.resolve(self._ctx.dir, pod, port)

    def _is_open(self, pod: JsonObject, port: int) -> bool:
        """Return whether NetworkPolicies let the collectors reach a port; report it otherwise."""
        if not self._enforces_policies:
            return True
        namespace = collectors_namespace(autopilot=self._ctx.spec.autopilot)
        sender = sent_by_pod({"kubernetes.io/metadata.name": namespace}, _COLLECTOR)
        if lets_in(self._policies.items(), pod, port, sender):
            return True
        where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}:{port}"
        if where not in self._closed:
            self._closed.add(where)
            _LOG.warning("%s: no NetworkPolicy lets the collectors of %s in", where, namespace)
        return False

    def _rule_files(self) -> tuple[dict[str, str], list[tuple[JsonObject, str | None]]]:
        found = _sorted(self._rules)
        keys = [(item["metadata"]["uid"], item["metadata"].get("generation", 0)) for item in found]
        new = [item for item, key in zip(found, keys, strict=True) if key not in self._scoped]
        fresh = rule_files.scoped_rules(new, self._labels, self._ctx.tool("rulescope"))
        answers = iter(fresh)
        self._scoped = {
            key: self._scoped[key] if key in self._scoped else next(answers) for key in keys
        }
        files: dict[str, str] = {}
        problems: list[tuple[JsonObject, str | None]] = []
        for item, key in zip(found, keys, strict=True):
            scoped = self._scoped[key]
            try:
                if isinstance(scoped, ConfigError):
                    raise scoped
                made = rule_files.rule_groups(item, scoped, self._clock)
            except ConfigError as error:
                problems.append((item, str(error)))
                continue
            metadata = item["metadata"]
            name = f"{item['kind']}--{metadata.get('namespace', '')}--{metadata['name']}.yaml"
            files[f"rules/{name}"] = _yaml(made)
            problems.append((item, None))
        return files, problems

    def _config(self, jobs: list[JsonObject]) -> str:
        config = {
            "global": {
                "scrape_interval": self._clock.interval("1m"),
                "evaluation_interval": self._clock.interval("1m"),
            },
            "rule_files": [f"{self._server.folder}/rules/*.yaml"],
            "scrape_configs": jobs,
        }
        return _yaml(config)

    def _write(self, wanted: dict[str, str]) -> set[str]:
        """Write changed files, remove obsolete rules and targets, and return the changes."""
        folder = self._server.folder
        changed = {name for name, text in wanted.items() if _put(folder / name, text)}
        for sub in ("rules", "targets"):
            for file in (folder / sub).iterdir():
                name = f"{sub}/{file.name}"
                if name not in wanted and not file.match(system_jobs.EXTRA_FILES):
                    file.unlink()
                    changed.add(name)
        return changed

    def _reload(self) -> None:
        try:
            self._server.reload()
        except QueryError as error:
            _LOG.warning("Prometheus keeps what it had: %s", error)

    def _report(self, item: JsonObject, problem: str | None) -> None:
        status = status_of(item, problem, timestamp())
        if status is None:
            return
        try:
            path = self._ctx.kube.path_of(item) + "/status"
            self._ctx.kube.patch(path, {"status": status})
        except KubeError as error:
            if error.status != 404:
                _LOG.warning("status of %s: %s", item["metadata"]["name"], error.message)


def _yaml(content: JsonObject) -> str:
    # written by libyaml, because the configuration is compared at every change
    return yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False)


def _sorted(informers: list[Informer]) -> list[JsonObject]:
    found = [item for informer in informers for item in informer.items()]
    return sorted(
        found, key=lambda i: (i["kind"], i["metadata"].get("namespace", ""), i["metadata"]["name"])
    )


def _put(file: Path, text: str) -> bool:
    """Replace a file atomically if its content differs; return whether it did."""
    try:
        if file.read_text() == text:
            return False
    except FileNotFoundError:
        pass
    partial = file.with_name(f".{file.name}.tmp")
    partial.write_text(text)
    partial.replace(file)
    return True


_TYPE = "ConfigurationCreateSuccess"


def status_of(obj: JsonObject, problem: str | None, now: str) -> JsonObject | None:
    """Return the new status of an object; None if it is unchanged.

    Args:
        obj: object from the API server.
        problem: reason why it has no configuration; None if it has one.
        now: current time in Kubernetes format.
    """
    status, generation = part(obj, "status"), obj["metadata"].get("generation", 1)
    word = "True" if problem is None else "False"
    held: list[JsonObject] = [c for c in parts(status, "conditions") if c["type"] == _TYPE]
    old: JsonObject = held[0] if held else {}
    is_same = old.get("status") == word and old.get("message", "") == (problem or "")
    if is_same and status.get("observedGeneration") == generation:
        return None
    since = old.get("lastTransitionTime") if old.get("status") == word else None
    condition: JsonObject = {
        "type": _TYPE,
        "status": word,
        "lastUpdateTime": now,
        "lastTransitionTime": since or now,
    }
    if problem is not None:
        condition |= {"reason": "ScrapeConfigError", "message": problem}
    return {"observedGeneration": generation, "conditions": [condition]}
