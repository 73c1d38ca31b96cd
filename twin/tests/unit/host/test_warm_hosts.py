"""Hosts that are forks of one process: each runs one program in an environment of its own."""

import importlib
import json
import os
import socket
from concurrent import futures
from contextlib import closing
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2

from twin.host.processes import ProcessError
from twin.pulumi.warm_hosts import WarmHosts

pb: Any = importlib.import_module("pulumi.runtime.proto.language_pb2")
stubs: Any = importlib.import_module("pulumi.runtime.proto.language_pb2_grpc")
resource_pb: Any = importlib.import_module("pulumi.runtime.proto.resource_pb2")
monitors: Any = importlib.import_module("pulumi.runtime.proto.resource_pb2_grpc")
PROGRAM = """
import json, os, sys
from pathlib import Path
import gke_inference.catalogue
told = {"word": os.environ.get("WORD"), "home": os.environ.get("HOME"), "path": sys.path[:3],
        "infra": "infra" in sys.modules, "parent": os.getppid(), "group": os.getpgid(0),
        "sdk": "pulumi_gcp.compute._inputs" in sys.modules,
        "catalogue": gke_inference.catalogue.__file__}
Path("told.json").write_text(json.dumps(told))
"""


class Monitor(monitors.ResourceMonitorServicer):
    """What a program needs of an engine to begin and to end."""

    def SupportsFeature(self, request, context):
        return resource_pb.SupportsFeatureResponse(hasSupport=False)

    def RegisterResource(self, request, context):
        return resource_pb.RegisterResourceResponse(urn=f"urn:pulumi:it::it::{request.type}::it")

    def SignalAndWaitForShutdown(self, request, context):
        return empty_pb2.Empty()

    def RegisterResourceOutputs(self, request, context):
        return empty_pb2.Empty()


@pytest.fixture(scope="module")
def monitor():
    server = grpc.server(futures.ThreadPoolExecutor(2))
    monitors.add_ResourceMonitorServicer_to_server(Monitor(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    made = WarmHosts(tmp_path_factory.mktemp("hosts"), os.environ)
    yield made
    made.close()


def _run(port, folder, monitor):
    """Run a program that reports its results."""
    folder.mkdir()
    (folder / "__main__.py").write_text(PROGRAM)
    (folder / "Pulumi.yaml").write_text("name: gke-inference\n")
    where = str(folder)
    info = pb.ProgramInfo(program_directory=where, root_directory=where, entry_point=".")
    request = pb.RunRequest(pwd=str(folder), info=info, monitor_address=monitor, stack="it")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert not stubs.LanguageRuntimeStub(channel).Run(request).error
    return json.loads((folder / "told.json").read_text())


def test_each_host_runs_its_program_with_the_sdks_there_in_the_environment_given(
    hosts, monitor, tmp_path
):
    told: list[dict[str, Any]] = []
    for word in ("first", "second"):
        packages = str(tmp_path / f"{word}-packages")
        catalogue = tmp_path / f"{word}-packages" / "gke_inference" / "catalogue" / "__init__.py"
        catalogue.parent.mkdir(parents=True)
        for folder in (catalogue.parent.parent, catalogue.parent):
            (folder / "__init__.py").write_text("")
        with hosts.host({"WORD": word, "PYTHONPATH": packages}) as port:
            told.append(_run(port, tmp_path / word, monitor))
        assert packages in told[-1]["path"]
        # the process has loaded parts of this package from this checkout
        assert told[-1]["catalogue"] == str(catalogue)
    assert [each["word"] for each in told] == ["first", "second"]
    assert [each["home"] for each in told] == [None, None]
    assert all(each["sdk"] for each in told)
    assert told[0]["parent"] == told[1]["parent"] != os.getpid()


def test_two_hosts_can_be_there_at_once_and_each_ends_with_its_block(hosts):
    with hosts.host({}) as first:
        with hosts.host({}) as second:
            assert first != second
            _connect(second)
        with pytest.raises(ConnectionError):
            _connect(second)
        _connect(first)


def _connect(port):
    socket.create_connection(("127.0.0.1", port), timeout=30).close()


def test_an_interrupt_at_the_terminal_reaches_neither_the_process_nor_its_hosts(
    hosts, monitor, tmp_path
):
    with hosts.host({}) as port:
        told = _run(port, tmp_path / "grouped", monitor)
    assert os.getpgid(hosts._process.pid) == told["group"] == hosts._process.pid


def test_a_program_of_another_checkout_does_not_get_the_modules_of_this_one(monitor, tmp_path):
    with closing(WarmHosts(tmp_path, os.environ, ["infra"])) as made:
        found: dict[str, bool] = {}
        for folder in ("infra", "floor"):
            with made.host(os.environ) as port:
                found[folder] = _run(port, tmp_path / folder, monitor)["infra"]
    assert found == {"infra": False, "floor": True}


def test_a_module_that_cannot_be_imported_is_left_to_the_program(tmp_path):
    with (
        closing(WarmHosts(tmp_path, os.environ, ["no_such_module"])) as made,
        made.host({}) as port,
    ):
        _connect(port)


def test_that_the_process_is_gone_is_said(tmp_path):
    made = WarmHosts(tmp_path, os.environ)
    made._process.kill()
    made._process.wait()
    with pytest.raises(ProcessError, match="has ended"), made.host({}):
        pass
    made.close()


@pytest.mark.needs_tools  # a process that loads the SDKs
def test_hosts_end_when_the_process_that_made_them_is_killed(tmp_path):
    made = WarmHosts(tmp_path, os.environ)
    host = made.host({})
    port = host.__enter__()
    made._process.kill()
    made._process.wait()
    while _answers(port):
        pass
    made.close()
    with pytest.raises(ProcessError):
        host.__exit__(None, None, None)


def _answers(port):
    try:
        _connect(port)
    except ConnectionError:  # refused, or reset by a host that ends
        return False
    return True
