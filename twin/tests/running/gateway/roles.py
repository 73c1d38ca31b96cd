"""A pool of prefill and decode replicas: engines, sidecars and the picker with its plugins."""

import os
import subprocess
import sys
import time

from gke_inference.gateway.picker_roles import roles_config
from gke_inference.serving.disaggregation import (
    ENGINE_PORT,
    ROLE_LABEL,
    SIDE_CHANNEL_PORT,
    transfer_flag,
)
from twin.host import loopback_only
from twin.host.paths import REPOSITORY
from twin.host.ports import free_port
from twin.tests.metric_pages import total
from twin.tests.running.gateway.cluster import Cluster
from twin.tests.running.gateway.manifests import service
from twin.toolchain import tool

MODEL = "llama-3.1-8b"
THRESHOLD_TOKENS = 64
_SECONDS_TO_START = 60.0


class RolesPool:
    """The pool's processes; each pod has a loopback address of its own.

    Args:
        cluster: API server and controller.
        name: of the pool.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self.name = name
        self.addresses: dict[str, str] = {}
        self.picker_metrics = 0
        self._processes: dict[str, list[subprocess.Popen[bytes]]] = {}

    def start(self, prefill: int, decode: int) -> None:
        """Start the replicas, then make pool, picker and pods."""
        for number in range(prefill):
            self._replica(f"{self.name}-prefill-{number}", "prefill")
        for number in range(decode):
            self._replica(f"{self.name}-decode-{number}", "decode")
        limit = time.monotonic() + _SECONDS_TO_START
        for pod in self.addresses:
            self._await(pod, limit)
            self._cluster.pod(pod, self._labels(pod), self.addresses[pod])
        self._pool()
        self._picker()

    def _labels(self, pod: str) -> dict[str, str]:
        return {"model": self.name, ROLE_LABEL: pod.rsplit("-", 2)[1]}

    def _replica(self, pod: str, role: str) -> None:
        address = f"127.49.{os.getpid() % 250}.{len(self.addresses) + 10}"
        self.addresses[pod] = address
        port = ENGINE_PORT if role == "decode" else 8000
        environment = {
            "GKE_INFERENCE_SIM_ACCELERATOR": "nvidia-l4",  # slow: there is time to kill it
            "GKE_INFERENCE_SIM_POD": pod,
            "GKE_INFERENCE_SIM_POD_IP": address,
            "VLLM_NIXL_SIDE_CHANNEL_HOST": address,
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(SIDE_CHANNEL_PORT),
        }
        flags = [f"--port={port}", "--max-model-len=8192", transfer_flag("nvidia-h200-141gb")]
        self._launch(pod, environment, "simulator.server", "serve", MODEL, *flags)
        if role == "decode":
            proxy = ["--port=8000", f"--vllm-port={ENGINE_PORT}", "--secure-proxy=false"]
            self._launch(pod, environment, "simulator.sidecar", *proxy)

    def _launch(self, pod: str, environment: dict[str, str], module: str, *flags: str) -> None:
        with (self._cluster.dir / "logs" / f"{pod}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *flags],
                cwd=REPOSITORY,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.setdefault(pod, []).append(process)

    def _await(self, pod: str, limit: float) -> None:
        while True:
            try:
                if self.metric(pod, "vllm:cache_config_info"):
                    return
            except OSError:
                assert time.monotonic() < limit, f"{pod} does not answer"
                time.sleep(0.1)

    def _pool(self) -> None:
        target = {"group": "inference.networking.k8s.io", "kind": "InferencePool"}
        check = {"type": "HTTP", "httpHealthCheck": {"requestPath": "/health", "port": 8000}}
        self._cluster.apply(
            {
                "apiVersion": "inference.networking.k8s.io/v1",
                "kind": "InferencePool",
                "metadata": {"name": self.name, "namespace": "default"},
                "spec": {
                    "selector": {"matchLabels": {"model": self.name}},
                    "targetPorts": [{"number": 8000}],
                    "endpointPickerRef": {
                        "name": f"{self.name}-epp",
                        "port": {"number": 9002},
                        "failureMode": "FailClose",
                    },
                },
            },
            {
                "apiVersion": "networking.gke.io/v1",
                "kind": "HealthCheckPolicy",
                "metadata": {"name": self.name, "namespace": "default"},
                "spec": {
                    "targetRef": {**target, "name": self.name},
                    "default": {"checkIntervalSec": 1, "timeoutSec": 1, "config": check},
                },
            },
        )

    def _picker(self) -> None:
        config = self._cluster.dir / f"{self.name}.yaml"
        config.write_text(roles_config(THRESHOLD_TOKENS))
        grpc, self.picker_metrics = free_port(), free_port()
        name = f"{self.name}-epp"
        with (self._cluster.dir / "logs" / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                loopback_only.command(
                    [
                        str(tool("pd-epp")),
                        f"--pool-name={self.name}",
                        "--pool-namespace=default",
                        f"--config-file={config}",
                        f"--grpc-port={grpc}",
                        f"--grpc-health-port={free_port()}",
                        f"--metrics-port={self.picker_metrics}",
                        "--metrics-endpoint-auth=false",
                        "--tracing=false",
                        "--kv-cache-usage-percentage-metric=vllm:kv_cache_usage_perc",
                        "--enable-pprof=false",
                        "--v=1",
                    ]
                ),
                env={**os.environ, "KUBECONFIG": str(self._cluster.kubeconfig)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes[name] = [process]
        self._cluster.move_port(name, 9002, grpc)
        self._cluster.pod(name, {"app": name}, f"127.49.{os.getpid() % 250}.2")
        self._cluster.apply(service(name, {"app": name}, 9002))

    def metric(self, pod: str, name: str) -> float:
        """Return the sum of the series of a metric that begin with `name`."""
        return total(f"http://{self.addresses[pod]}:8000/metrics", name)

    def decisions(self) -> dict[str, int]:
        """Return the picker's decisions so far."""
        series = "llm_d_inference_scheduler_pd_decision_total"
        url = f"http://127.0.0.1:{self.picker_metrics}/metrics"
        kinds = ("prefill-decode", "decode-only")
        return {kind: int(total(url, f'{series}{{decision_type="{kind}"')) for kind in kinds}

    def log(self, pod: str) -> str:
        """Return the output of a pod's processes."""
        return (self._cluster.dir / "logs" / f"{pod}.log").read_text()

    def kill(self, pod: str) -> None:
        """Kill a replica at once; its pod stays in the API server, as it does for a while."""
        for process in self._processes.pop(pod):
            process.kill()
            process.wait(timeout=10)

    def stop(self) -> None:
        """End everything."""
        for pod in list(self._processes):
            self.kill(pod)


def from_source(source: str) -> str:
    """Return the beginning of the series of prompt tokens from one source."""
    head = f'vllm:prompt_tokens_by_source_total{{engine="0",model_name="{MODEL}"'
    return f'{head},source="{source}"'


def words(seed: str, count: int) -> str:
    """Return a prompt that shares no block with those of other seeds."""
    return " ".join(f"{seed}{number}" for number in range(count))
