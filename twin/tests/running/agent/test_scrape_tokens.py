"""Tokens of scrape targets: only of Secrets that the collector of Managed Prometheus may read."""

from pathlib import Path

import pytest

from gke_inference.namespace.serving_namespace import namespace_object
from gke_inference.operators.queue_operator import NAMESPACE, observers
from twin.cluster.base.context import ClusterContext
from twin.cluster.monitoring import tokens
from twin.cluster.monitoring.scrape import secret_keys
from twin.providers.kubernetes.manifests.objects import to_object
from twin.tests.eventually import eventually
from twin.tests.running.agent.objects import remove
from twin.wire.kube import Kube

pytestmark = pytest.mark.needs_tools


def test_the_collector_gets_the_token_of_kueues_metrics_once_it_may(
    context: ClusterContext, kube: Kube, tmp_path: Path
):
    made = observers("gmp-system")
    wanted = secret_keys(made.pop("monitoring"))
    (key,) = wanted
    binding = to_object(made.pop("collecting"))
    remove(kube, kube.path_of(binding))  # of a run that failed
    kube.apply(to_object(namespace_object(NAMESPACE, "restricted")), manager="test")
    for obj in made.values():
        kube.apply(to_object(obj), manager="test")
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{key.name}"
    eventually(lambda: kube.get(path).get("data", {}).get(key.key))
    folder = tmp_path / "tokens"
    tokens.write(context, folder, wanted)
    assert list(folder.iterdir()) == []
    kube.apply(binding, manager="test")

    def has_token() -> bool:
        tokens.write(context, folder, wanted)
        return [file.name for file in folder.iterdir()] == [key.file]

    eventually(has_token)
    assert (folder / key.file).read_text().count(".") == 2  # a signed token
    assert (folder / key.file).stat().st_mode & 0o077 == 0
    tokens.write(context, folder, [])
    assert list(folder.iterdir()) == []
