"""Arguments of the provider, and connections that each have their own."""

import json

import pytest

from twin.providers.kubernetes import settings
from twin.providers.kubernetes.manifests.errors import InvalidInput
from twin.providers.kubernetes.provider import (
    KubernetesProvider,
    replacing_arguments,
    type_and_name,
)
from twin.providers.kubernetes.sessions import Sessions
from twin.providers.kubernetes.settings import Settings
from twin.providers.kubernetes.waits import pods, simple, workloads
from twin.wire import rpc
from twin.wire.kube import Kube
from twin.wire.property_values import SECRET_SIGNATURE, SIGNATURE_KEY, UNKNOWN

pb = rpc.provider_pb2


def kubeconfig(server="https://one", name="k"):
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": name, "user": "u"}}],
            "clusters": [{"name": name, "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
    )


def test_a_kubeconfig_is_read_from_its_content_or_from_its_file(tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig())
    from_file = settings.read_kubeconfig(Settings(kubeconfig=str(file)))
    assert from_file == settings.read_kubeconfig(Settings(kubeconfig=kubeconfig()))


def test_a_provider_without_a_kubeconfig_uses_none_of_the_machine():
    assert settings.read_kubeconfig(Settings()) is None


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ({"kubeconfig": "/no/such/file"}, "kubeconfig"),
        ({"kubeconfig": "{broken"}, "kubeconfig"),
        ({"kubeconfig": kubeconfig(), "context": "other"}, "context"),
        ({"kubeconfig": kubeconfig(), "cluster": "other"}, "cluster"),
        ({"kubeconfg": kubeconfig()}, "kubeconfg"),
        ({"renderYamlToDirectory": "out"}, "renderYamlToDirectory"),
        ({"enableServerSideApply": "false"}, "enableServerSideApply"),
        ({"enablePatchForce": "maybe"}, "enablePatchForce"),
    ],
)
def test_wrong_arguments_are_refused_by_name(args, name):
    assert [error.property_path for error in settings.check(args)] == [name]


def test_right_arguments_are_taken_as_the_engine_sends_them():
    args = {"kubeconfig": kubeconfig(), "enablePatchForce": "true", "upsertExistingObjects": True}
    assert settings.check(args) == []
    read = Settings.of(args)
    assert read.patch_force
    assert read.upsert
    assert not read.delete_unreachable


def test_a_broken_kubeconfig_names_what_is_wrong():
    with pytest.raises(InvalidInput, match="neither YAML nor JSON"):
        settings.read_kubeconfig(Settings(kubeconfig="{broken"))


def test_another_cluster_replaces_every_object_of_the_provider():
    old, new = {"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig("https://two")}
    assert replacing_arguments(old, new, ["kubeconfig"]) == ["kubeconfig"]
    unknown = {"kubeconfig": UNKNOWN}
    assert replacing_arguments(old, unknown, ["kubeconfig"]) == ["kubeconfig"]


def test_another_name_for_a_cluster_in_the_kubeconfig_replaces_nothing():
    old, new = {"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig(name="other")}
    assert replacing_arguments(old, new, ["kubeconfig"]) == []


def test_taking_the_cluster_identifier_away_replaces_nothing():
    old, new = {"kubeconfig": kubeconfig(), "clusterIdentifier": "a"}, {"kubeconfig": kubeconfig()}
    assert replacing_arguments(old, new, ["clusterIdentifier"]) == []


def test_with_a_cluster_identifier_only_its_change_replaces():
    old = {"kubeconfig": kubeconfig(), "clusterIdentifier": "a"}
    moved = {"kubeconfig": kubeconfig("https://two"), "clusterIdentifier": "a"}
    assert replacing_arguments(old, moved, ["kubeconfig"]) == []
    other = {**moved, "clusterIdentifier": "b"}
    changed = ["clusterIdentifier", "kubeconfig"]
    assert replacing_arguments(old, other, changed) == ["clusterIdentifier"]


def test_each_connection_has_settings_of_its_own():
    sessions = Sessions(connected=lambda: {1, 2})
    sessions.of("ipv4:1").configure(Settings(namespace="one"))
    sessions.of("ipv4:2").configure(Settings(namespace="two"))
    assert sessions.of("ipv4:1").settings == Settings(namespace="one")
    assert sessions.of("ipv4:2").settings == Settings(namespace="two")


def test_an_engine_that_has_gone_leaves_no_connections_behind():
    engines = {1, 2}
    sessions = Sessions(connected=lambda: engines)
    sessions.of("ipv4:1").configure(Settings(namespace="one"))
    sessions.of("ipv4:2").configure(Settings(namespace="two"))
    engines.remove(1)
    sessions.of("ipv4:3")
    assert sessions.of("ipv4:2").settings == Settings(namespace="two")
    assert sessions.of("ipv4:1").settings is None


class Call:
    """A call in progress, which the engine may leave."""

    def add_callback(self, callback):
        self.leave = callback
        return True


def test_a_wait_ends_when_the_engine_cancels_its_instance_or_goes_away():
    sessions = Sessions(connected=lambda: {1, 2})
    left, cancelled, other = Call(), Call(), Call()
    first = sessions.of("ipv4:1").new_call(left)
    second = sessions.of("ipv4:1").new_call(cancelled)
    third = sessions.of("ipv4:2").new_call(other)
    left.leave()
    assert first.is_set()
    assert not second.is_set()
    sessions.of("ipv4:1").cancel()
    assert second.is_set()
    assert not third.is_set()


class Context:
    """What a call knows of its connection."""

    def peer(self):
        return "ipv4:127.0.0.1:1"


URN = "urn:pulumi:dev::p::mine:a:B$kubernetes:apps/v1:Deployment::server"


def test_type_and_name_are_read_from_a_urn_with_parents():
    assert type_and_name(URN) == ("kubernetes:apps/v1:Deployment", "server")


def test_check_completes_inputs_and_keeps_secrets_and_unknowns():
    secret = {SIGNATURE_KEY: SECRET_SIGNATURE, "value": "hush"}
    news = {"metadata": {"name": "x"}, "spec": {"a": secret, "b": UNKNOWN}}
    request = pb.CheckRequest(urn=URN, news=rpc.to_struct(news))
    answer = KubernetesProvider().Check(request, Context())
    assert rpc.plain(answer.inputs) == {**news, "apiVersion": "apps/v1", "kind": "Deployment"}
    assert not answer.failures


def test_check_tells_a_contradiction_as_a_failure_of_that_property():
    news = rpc.to_struct({"apiVersion": "v1", "metadata": {"name": "x"}})
    answer = KubernetesProvider().Check(pb.CheckRequest(urn=URN, news=news), Context())
    assert [failure.property for failure in answer.failures] == ["apiVersion"]


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "x", "namespace": "n", "generation": 2},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}},
}


class Pods(Kube):
    """An API that knows pods and their events."""

    def __init__(self, *found):
        self._found = found

    def list(self, path, label_selector=None, field_selector=None):
        return list(self._found) if path.endswith("/pods") else []


def test_a_deployment_the_controller_has_not_seen_is_not_ready():
    status = {"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2, "replicas": 2}
    state = workloads.deployment_ready({**DEPLOYMENT, "status": status}, Pods())
    assert not state.ready


def test_a_deployment_past_its_deadline_fails_with_the_reason_of_its_pods():
    pod = {
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "status": {
            "phase": "Pending",
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}},
                }
            ],
        },
    }
    condition = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    status = {"observedGeneration": 2, "conditions": [condition]}
    state = workloads.deployment_ready({**DEPLOYMENT, "status": status}, Pods(pod))
    assert state.failed
    assert state.message == "0 of 2 replicas ready: container main: ImagePullBackOff: no such tag"


def test_a_container_that_ended_says_how():
    ended = {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    pod = {"metadata": {}, "status": {"phase": "Running", "containerStatuses": [ended]}}
    assert pods.why_not_ready(pod) == "container main: OOMKilled: exit code 137"


@pytest.mark.parametrize(
    ("expression", "ready"),
    [
        ("condition=Ready", True),
        ("condition=Ready=False", False),
        ("jsonpath={.status.phase}=Up", True),
        ("jsonpath={.status.other}", False),
        ('["condition=Ready", "jsonpath={.status.phase}=Down"]', False),
    ],
)
def test_a_wait_for_expression_looks_at_the_status(expression, ready):
    status = {"phase": "Up", "conditions": [{"type": "Ready", "status": "True"}]}
    assert simple.expression_ready(expression)({"status": status}, Pods()).ready is ready
