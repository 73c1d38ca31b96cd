"""Checks of capacity buffers on a deployed platform."""

from typing import Any

import pytest

from scripts.accept.buffers import buffers
from scripts.accept.row import Verdict
from tests.unit.accept.conftest import with_model
from tests.unit.accept.fake_platform import GPU_NODE, TPU_NODE, node, pod


@pytest.fixture
def kept(fake, local):
    """Return a platform with a buffer of one replica."""
    (model,) = local.models.values()
    replicas = model.replicas.model_copy(update={"buffer": 1})
    return fake.deployed(with_model(local, replicas=replicas))


def filled(fake, replicas: int = 1, **ready: Any) -> None:
    """Let the cluster have the buffer."""
    condition = {"type": "ReadyForProvisioning", "status": "True", **ready}
    fake.cluster.buffer = {"status": {"replicas": replicas, "conditions": [condition]}}


def test_a_buffer_with_an_empty_node_is_met(kept, fake):
    filled(fake)
    fake.cluster.nodes = [node("tpu", TPU_NODE), node("spare", TPU_NODE)]
    fake.cluster.pods = [pod("llama-0", "tpu")]
    (row,) = buffers(kept)
    assert (row.name, row.predicted) == (
        "llama-3.1-8b in us-central1",
        "empty nodes for 1 replicas",
    )
    assert (row.verdict, row.measured) == (Verdict.MET, "1 empty nodes")


def test_a_buffer_whose_nodes_are_used_or_of_another_rung_is_not_met(kept, fake):
    filled(fake)
    fake.cluster.nodes = [node("tpu", TPU_NODE), node("gpu", GPU_NODE)]
    fake.cluster.pods = [pod("llama-0", "tpu")]
    (row,) = buffers(kept)
    assert (row.verdict, row.measured) == (Verdict.NOT_MET, "0 empty nodes")


def test_a_buffer_that_gke_cannot_provision_says_why(kept, fake):
    filled(fake, status="False", reason="error", message="Deployment not found")
    (row,) = buffers(kept)
    assert (row.verdict, row.measured) == (Verdict.NOT_MET, "Deployment not found")


def test_a_buffer_that_a_quota_limits_is_not_met(kept, fake):
    filled(fake, replicas=0)
    (row,) = buffers(kept)
    assert (row.verdict, row.measured) == (Verdict.NOT_MET, "GKE keeps nodes for 0")


def test_a_platform_without_buffers_has_no_row(platform):
    assert list(buffers(platform)) == []
