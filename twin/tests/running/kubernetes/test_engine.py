"""The real engine drives the provider: preview, up, refresh, destroy."""

import pytest

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(240)]

TWO_CLUSTERS = """
import pathlib
import pulumi
import pulumi_kubernetes as k8s

for region in ("east", "west"):
    provider = k8s.Provider(
        region, kubeconfig=pathlib.Path("kubeconfig").read_text(), namespace=f"{PREFIX}-{region}"
    )
    opts = pulumi.ResourceOptions(provider=provider)
    home = k8s.core.v1.Namespace(region, metadata={"name": f"{PREFIX}-{region}"}, opts=opts)
    for index in range(5):
        k8s.core.v1.ConfigMap(
            f"{region}-{index}",
            metadata={"name": f"settings-{index}"},
            data={"region": region},
            opts=pulumi.ResourceOptions(provider=provider, depends_on=[home]),
        )
    pulumi.export(region, home.metadata.uid)
"""

CONFIG_MAP = "urn:pulumi:test::gke-inference::kubernetes:core/v1:ConfigMap"

AUTONAMED = """
import pathlib
import pulumi
import pulumi_kubernetes as k8s

provider = k8s.Provider("here", kubeconfig=pathlib.Path("kubeconfig").read_text())
opts = pulumi.ResourceOptions(provider=provider)
made = k8s.core.v1.ConfigMap(
    "settings", metadata={"namespace": NAMESPACE}, data={"colour": COLOUR}, opts=opts
)
pulumi.export("name", made.metadata.name)
"""

WAITING = """
import pathlib
import pulumi
import pulumi_kubernetes as k8s

provider = k8s.Provider("here", kubeconfig=pathlib.Path("kubeconfig").read_text())
labels = {"app": "server"}
k8s.apps.v1.Deployment(
    "server",
    metadata={"name": "server", "namespace": NAMESPACE},
    spec={
        "replicas": 1,
        "selector": {"match_labels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "node_selector": {"nobody": "has-this"},
                "containers": [{"name": "main", "image": "example.com/main:1"}],
            },
        },
    },
    opts=pulumi.ResourceOptions(
        provider=provider, custom_timeouts=pulumi.CustomTimeouts(create="5s")
    ),
)
"""


def regions_of(plane, prefix):
    """Return the region in each namespace's settings."""
    return {
        region: {
            item["data"]["region"]
            for item in plane.kube.list(f"/api/v1/namespaces/{prefix}-{region}/configmaps")
            if item["metadata"]["name"].startswith("settings-")
        }
        for region in ("east", "west")
    }


def test_two_provider_instances_do_not_mix_in_any_operation(stack, plane, namespace):
    (stack.folder / "kubeconfig").write_text(plane.kubeconfig)
    stack.write(TWO_CLUSTERS.replace("{PREFIX}", namespace))
    assert "+ 15 to create" in stack.run("preview")
    stack.run("up", "--yes", "--skip-preview")
    assert regions_of(plane, namespace) == {"east": {"east"}, "west": {"west"}}
    plane.kube.patch(
        f"/api/v1/namespaces/{namespace}-west/configmaps/settings-3", {"data": {"region": "moon"}}
    )
    plane.kube.delete(f"/api/v1/namespaces/{namespace}-east/configmaps/settings-2")
    targets = [f"--target={CONFIG_MAP}::{name}" for name in ("west-3", "east-2")]
    refreshed = stack.run("refresh", "--yes", *targets)
    assert "1 updated" in refreshed
    assert "1 deleted" in refreshed
    repaired = stack.run("up", "--yes", "--skip-preview")
    assert "1 created" in repaired
    assert "1 replaced" in repaired
    assert "13 unchanged" in repaired
    assert regions_of(plane, namespace) == {"east": {"east"}, "west": {"west"}}
    assert "15 deleted" in stack.run("destroy", "--yes", "--skip-preview")
    names = [item["metadata"]["name"] for item in plane.kube.list("/api/v1/namespaces")]
    assert f"{namespace}-east" not in names
    assert f"{namespace}-west" not in names


def test_an_automatic_name_stays_until_a_replacement_gets_a_new_one(stack, plane, namespace):
    (stack.folder / "kubeconfig").write_text(plane.kubeconfig)
    program = AUTONAMED.replace("NAMESPACE", repr(namespace))
    stack.write(program.replace("COLOUR", "'red'"))
    stack.run("up", "--yes", "--skip-preview")
    first = stack.outputs()["name"]
    assert first.startswith("settings-")
    stack.write(program.replace("COLOUR", "'blue'"))
    stack.run("up", "--yes", "--skip-preview")
    assert stack.outputs()["name"] not in ("", first)


def test_progress_and_the_reason_of_a_failure_are_shown_and_a_later_up_tries_again(
    stack, plane, namespace, node
):
    (stack.folder / "kubeconfig").write_text(plane.kubeconfig)
    program = WAITING.replace("NAMESPACE", repr(namespace))
    stack.write(program)
    shown = stack.run("up", "--yes", "--skip-preview", check=False)
    assert "0 of 1 replicas ready" in shown
    assert "not ready after 5 s" in shown
    assert "node(s) didn't match Pod's node affinity/selector" in shown
    stack.write(program.replace('"node_selector": {"nobody": "has-this"},', ""))
    assert "1 updated" in stack.run("up", "--yes", "--skip-preview")
