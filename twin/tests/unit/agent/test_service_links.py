"""Variables that the Services of a namespace give to its pods."""

from typing import Any, cast

import pytest

from simulator.engine.settings import EngineError
from simulator.tests.unit.engine.support import deployment
from twin.cluster.agent.launching.environment import Sources, variables
from twin.wire.kube import Kube

SERVICE = {
    "metadata": {"name": "vllm"},
    "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "http-api", "port": 8000}]},
}
HEADLESS = {
    "metadata": {"name": "hosts"},
    "spec": {"clusterIP": "None", "ports": [{"port": 1}]},
}


class Listing:
    def get(self, path: str) -> dict[str, Any]:
        assert path == "/api/v1/namespaces/team/services"
        return {"items": [SERVICE, HEADLESS]}


def made(container: dict[str, Any], **spec: Any) -> dict[str, str]:
    pod = {"metadata": {"namespace": "team"}, "spec": spec}
    return variables(pod, container, Sources(cast(Kube, Listing()), "team"))


def test_a_service_with_an_address_gives_its_variables_and_a_headless_one_none():
    assert made({}) == {
        "VLLM_SERVICE_HOST": "10.0.0.1",
        "VLLM_SERVICE_PORT": "8000",
        "VLLM_SERVICE_PORT_HTTP_API": "8000",
        "VLLM_PORT": "tcp://10.0.0.1:8000",
        "VLLM_PORT_8000_TCP": "tcp://10.0.0.1:8000",
        "VLLM_PORT_8000_TCP_PROTO": "tcp",
        "VLLM_PORT_8000_TCP_PORT": "8000",
        "VLLM_PORT_8000_TCP_ADDR": "10.0.0.1",
    }


def test_variables_of_the_container_replace_those_of_services_and_may_refer_to_them():
    env = [
        {"name": "VLLM_PORT", "value": "5000"},
        {"name": "AT", "value": "$(VLLM_SERVICE_HOST):$(VLLM_PORT)"},
    ]
    found = made({"env": env})
    assert (found["VLLM_PORT"], found["AT"]) == ("5000", "10.0.0.1:5000")


def test_an_engine_starts_beside_a_service_called_vllm_only_without_its_variables():
    with pytest.raises(EngineError, match="appears to be a URI"):
        deployment(**made({}))
    assert made({}, enableServiceLinks=False) == {}
