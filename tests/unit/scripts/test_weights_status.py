"""A model without weights is shown with what it waits for, and the command that helps."""

import json
from typing import Any

import pytest

from scripts.shared.clusters import Cluster
from scripts.shared.weights_status import Waiting, find_waiting, print_waiting
from twin.wire.kube import KubeError

WAITS = Waiting("llama", "main", "llama-tpu", "gs://m/llama/_CURRENT.json")


def found(data: dict[str, Any] | None) -> list[Waiting]:
    """Return what waits in one cluster whose gate wrote this; None: no gate ran yet."""

    class FakeKube:
        def get(self, path: str) -> dict[str, Any]:
            assert path == "/api/v1/namespaces/models/configmaps/weights-state"
            if data is None:
                raise KubeError(404, "", "not found", {})
            return {"data": {name: json.dumps(state) for name, state in data.items()}}

    kube: Any = FakeKube()
    return find_waiting([Cluster("main", "r", kube)], "models")


def test_what_waits_is_found_and_what_is_open_is_not() -> None:
    waits = {"open": False, "uid": "1", "waits_for": WAITS.waits_for}
    assert found({"llama-tpu": waits, "gemma-gpu": {"open": True, "uid": "2"}}) == [WAITS]


@pytest.mark.parametrize("data", [None, {}])
def test_a_cluster_whose_gate_wrote_nothing_has_nothing_that_waits(data) -> None:
    assert found(data) == []


def test_a_waiting_model_is_a_line_with_what_is_missing_and_the_command(capsys) -> None:
    print_waiting([WAITS], "prod")
    said = " ".join(capsys.readouterr().out.split())
    assert "llama-tpu in main: no replica, waiting for weights: gs://m/llama/_CURRENT.json" in said
    assert "gke-inference models push --stack prod --model MODEL FOLDER" in said


def test_nothing_is_printed_where_nothing_waits(capsys) -> None:
    print_waiting([], "prod")
    assert capsys.readouterr().out == ""
