"""Names of Services, as programs of a cluster ask for them."""

import pytest

from twin.cluster.services.proxy import environment, service_of


@pytest.mark.parametrize(
    "host", ["engine.models.svc", "engine.models.svc.cluster.local", "engine.models.svc."]
)
def test_a_service_is_named_with_its_namespace(host):
    assert service_of(host) == ("models", "engine")


@pytest.mark.parametrize("host", ["engine", "engine.models", "example.com", "a.b.svc.d", ""])
def test_any_other_name_is_no_service(host):
    with pytest.raises(LookupError, match=r"must be NAME\.NAMESPACE\.svc"):
        service_of(host)


def test_programs_ask_loopback_directly_and_a_cluster_without_a_proxy_gives_none(tmp_path):
    assert environment(tmp_path) == {}
    (tmp_path / "service-proxy").write_text("127.0.0.1:20001\n")
    found = environment(tmp_path)
    assert found["HTTP_PROXY"] == found["http_proxy"] == "http://127.0.0.1:20001"
    assert "127.0.0.1" in found["NO_PROXY"].split(",")
