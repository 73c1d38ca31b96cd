"""Rendered files checked by the provider, with what only `up` can know, and by API servers."""

from types import SimpleNamespace
from typing import Any

import yaml

from scripts.check import server_side_checks
from scripts.check.server_side_checks import check_resources
from scripts.shared.preview_states import NOT_KNOWN
from twin.cluster import lifecycle as clusters

RECORD: dict[str, Any] = {
    "inputs": {
        "managedZone": "example-com",
        "name": NOT_KNOWN,
        "rrdatas": [NOT_KNOWN],
        "ttl": 300,
        "type": "CNAME",
    },
    "type": "gcp:dns/recordSet:RecordSet",
    "urn": "urn:pulumi:prod::p::gcp:dns/recordSet:RecordSet::authorization",
}


def test_a_value_that_is_not_known_yet_is_judged_when_it_is():
    assert check_resources([RECORD]) == []
    known = {**RECORD, "inputs": {**RECORD["inputs"], "name": "models.example.com"}}
    (refusal,) = check_resources([known])
    assert refusal.startswith("authorization (gcp:dns/recordSet:RecordSet): ")
    assert "must end with a dot" in refusal


def test_clusters_that_store_the_same_share_a_server_and_are_named_in_its_refusals(
    tmp_path, monkeypatch
):
    (tmp_path / "resources.json").write_text("[]")
    for cluster, namespaces in {"a": ["n"], "b": ["n"], "c": ["n", "other"]}.items():
        folder = tmp_path / "manifests" / cluster
        folder.mkdir(parents=True)
        for name in namespaces:
            obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(obj))
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"of-{cluster}"}}
        (folder / "pod.yaml").write_text(yaml.safe_dump(pod))
    started, ended = [], []
    monkeypatch.setattr(
        clusters,
        "create",
        lambda spec, paths: started.append(spec.name) or SimpleNamespace(kubeconfig=spec.name),
    )
    monkeypatch.setattr(clusters, "delete", lambda location, name, paths: ended.append(name))
    monkeypatch.setattr(server_side_checks, "Kube", lambda config: config)
    monkeypatch.setattr(
        server_side_checks,
        "check_objects",
        lambda kube, objects: [f"{objects[-1]['metadata']['name']} at {kube}"],
    )
    assert server_side_checks.check_folder(tmp_path) == [
        "a: of-a at a",
        "b: of-b at a",
        "c: of-c at c",
    ]
    assert (started, ended) == (["a", "c"], ["a", "c"])
