"""What `accept --inside` finds in the pods of a deployed platform."""

from types import SimpleNamespace
from typing import Any

import pytest

from scripts.accept.deployed import Unreachable
from scripts.accept.inside import insides, unasked
from scripts.accept.row import Verdict
from tests.unit.accept.fake_platform import pod

CONTAINER = {
    "name": "vllm",
    "securityContext": {"runAsUser": 1000},
    "volumeMounts": [
        {"mountPath": "/mnt/models/", "name": "weights", "readOnly": True},
        {"mountPath": "/var/run/secrets/gke", "name": "token"},
    ],
    "env": [
        {"name": "HF_HUB_OFFLINE", "value": "1"},
        {"name": "TEXT", "value": "$$(HOME)"},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ],
}


def host(user: int = 1000, weights: str = "ro", **variables: str) -> Any:
    """Return the inside of a container."""
    mounts = {"/": ["rw"], "/run/secrets/gke": ["rw"], "/mnt/models": [weights, "relatime"]}
    if not weights:
        del mounts["/mnt/models"]
    found = [SimpleNamespace(path=path, options=options) for path, options in mounts.items()]
    return SimpleNamespace(
        user=lambda: SimpleNamespace(uid=user),
        mount_point=SimpleNamespace(get_mountpoints=lambda: found),
        check_output=lambda _, path: path.replace("/var/run/", "/run/"),
        environment=lambda: {"HF_HUB_OFFLINE": "1", "TEXT": "$(HOME)", **variables},
    )


@pytest.fixture
def look(platform, fake):
    """Return the row of the model's pod."""

    def row(inside: Any, **changed: Any) -> Any:
        made = pod("llama-0", "tpu")
        made["spec"] = {"containers": [CONTAINER], **changed}
        fake.cluster.pods = [pod("llama-1", "tpu", ready=None), made]
        fake.cluster.host = inside
        (found,) = insides(platform)
        return found

    return row


def test_a_pod_with_the_user_mounts_and_variables_of_its_specification_is_met(look):
    row = look(host())
    assert (row.subject, row.name) == ("pod", "of llama-3.1-8b in us-central1")
    assert (row.verdict, row.measured) == (Verdict.MET, "llama-0: as specified")


@pytest.mark.parametrize(
    ("inside", "wrong"),
    [
        (host(user=0), "user 0 instead of 1000"),
        (host(weights=""), "nothing is mounted at /mnt/models"),
        (host(weights="rw"), "/mnt/models can be written"),
        (host(HF_HUB_OFFLINE="0"), "variable HF_HUB_OFFLINE has another value"),
        (host(user=0, weights="rw"), "user 0 instead of 1000; /mnt/models can be written"),
    ],
)
def test_every_difference_is_named_and_no_value_of_a_variable(look, inside, wrong):
    row = look(inside)
    assert (row.verdict, row.measured) == (Verdict.NOT_MET, f"llama-0: {wrong}")


def test_the_users_of_a_container_go_before_those_of_its_pod(look):
    own = {key: value for key, value in CONTAINER.items() if key != "securityContext"}
    assert look(host(user=7), containers=[own], securityContext={"runAsUser": 7}).verdict == "met"
    assert look(host(), securityContext={"runAsUser": 7}).verdict == "met"
    assert look(host(user=3), containers=[own]).verdict == "met"  # the user of the image


def test_a_pod_that_lets_nobody_in_cannot_be_seen_and_none_that_is_ready_is_not_met(look, fake):
    fake.cluster.closed = Unreachable("kubectl exec: Forbidden")
    row = look(host())
    assert (row.is_unseen, row.measured) == (True, "kubectl exec: Forbidden")


def test_nobody_looks_inside_without_the_option(platform):
    (row,) = unasked(platform)
    assert (row.verdict, row.measured) == (Verdict.NOT_CHECKED, "needs --inside")
