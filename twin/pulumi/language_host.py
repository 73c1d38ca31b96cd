"""The Python language host of the twin, which every run without `--official` uses.

The engine starts it with its own address, reads a port from the first line of output and calls
this gRPC service. This repository's program runs in this process. Policy packs, component plugins
and other programs run as children.
"""

import gc
import importlib
import os
import queue
import runpy
import subprocess
import sys
import threading
from collections.abc import Container, Iterator
from concurrent import futures
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from twin.pulumi import user_programs
from twin.pulumi.environment import NO_CLUSTERS
from twin.pulumi.speedups import speed_up_imports, speed_up_program
from twin.pulumi.speedups.sdk_waits import asks_for_debugging
from twin.wire.rpc import empty_pb2, plugin_pb2

_language_pb2: Any = importlib.import_module("pulumi.runtime.proto.language_pb2")
_language_grpc: Any = importlib.import_module("pulumi.runtime.proto.language_pb2_grpc")
_automation: Any = importlib.import_module("pulumi.automation._server")
_ALIVE_SECONDS = 1.0
_LARGE = tuple(
    f"{package}.{module}"
    for package in (
        "pulumi_gcp.compute",
        "pulumi_gcp.container",
        "pulumi_kubernetes.apps.v1",
        "pulumi_kubernetes.core.v1",
    )
    for module in ("_inputs", "outputs")
)
"""SDK modules that take the longest to load."""
_metadata: Any = importlib.import_module("importlib.metadata")


class LanguageHost(_language_grpc.LanguageRuntimeServicer):
    """A host for Pulumi programs, policy packs and component plugins."""

    def __init__(self, engine_address: str, *, shows_debugging: bool = False) -> None:
        """Create a host.

        Args:
            engine_address: address of the engine; empty if the engine sends it when it attaches.
            shows_debugging: whether the engine prints debug messages of the SDK.
        """
        self._engine = engine_address
        self._shows_debugging = shows_debugging
        self._loading = threading.Thread(target=load_sdks, daemon=True, name="sdks")

    def About(self, request: Any, context: Any) -> Any:
        """Return the interpreter of programs."""
        return _automation.LanguageServer(None).About(request, context)

    def GetRequiredPlugins(self, request: Any, context: Any) -> Any:
        """Request no plugins, because the providers are attached."""
        return _language_pb2.GetRequiredPluginsResponse()

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:
        """Request no packages, because the providers are attached.

        After this call, the engine starts policy packs. Until they answer, there is time to preload
        the program's imports.
        """
        if self._loading.ident is None and user_programs.is_own(request.info):
            self._loading.start()
        return _language_pb2.GetRequiredPackagesResponse()

    def Handshake(self, request: Any, context: Any) -> Any:
        """Negotiate the protocol; an attaching engine sends its address here."""
        self._engine = request.engine_address or self._engine
        return _language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        """Return the version of the SDK that runs programs."""
        return plugin_pb2.PluginInfo(version=_metadata.version("pulumi"))

    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:
        """Install the requirements of a program; `make` has installed those of this repository."""
        try:
            for output in user_programs.install(request.info, is_plugin=request.is_plugin):
                yield _language_pb2.InstallDependenciesResponse(stdout=output)
        except user_programs.ProgramError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))

    def RuntimeOptionsPrompts(self, request: Any, context: Any) -> Any:
        """Ask nothing."""
        return _language_pb2.RuntimeOptionsResponse()

    def Cancel(self, request: Any, context: Any) -> Any:
        """Accept a request to stop; the engine ends this process afterwards."""
        return empty_pb2.Empty()

    def Run(self, request: Any, context: Any) -> Any:
        """Run a program: this repository's in this process, others in their own environment."""
        if not user_programs.is_own(request.info):
            return self._run_others(request, context)
        entry = Path(request.info.program_directory, request.info.entry_point)
        main = entry if entry.suffix == ".py" else entry / "__main__.py"
        request.args[:] = [self._engine]
        os.chdir(request.pwd or entry)
        sys.path.insert(0, str(main.parent))
        _forget_others(main.resolve().parent)
        if self._loading.ident is not None:
            self._loading.join()  # two threads that import the same may see half a module

        speed_up_program(shows_debugging=self._shows_debugging)

        def program() -> None:
            runpy.run_path(str(main), run_name="__main__")

        answer = _automation.LanguageServer(program).Run(request, context)
        if answer.error:  # it is logged already: the engine would print it a second time
            answer.error, answer.bail = "", True
        return answer

    def _run_others(self, request: Any, context: Any) -> Any:
        answer = _language_pb2.RunResponse()
        try:
            answer.bail = not user_programs.run(request, self._engine, context)
        except user_programs.ProgramError as error:
            user_programs.report(self._engine, str(error))
            answer.bail = True
        return answer

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        """Run a policy pack or a component plugin as a child and pass its output on."""
        entry = str(Path(request.info.program_directory, request.info.entry_point))
        arguments: list[str] = list(request.args)
        is_pack = request.kind == "analyzer"
        python = interpreter(request.info, is_plugin=not is_pack)
        if not Path(python).exists():
            why = f"virtualenv: must be a virtual environment, there is no {python}"
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{entry}: {why}")
        argv = [python, "-u", entry, *arguments]
        if is_pack:
            argv[2:] = ["-m", "pulumi.policy", *arguments[:1], entry]
        with subprocess.Popen(
            argv,
            cwd=request.pwd or entry,
            env=dict(variable.split("=", 1) for variable in request.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as child:
            context.add_callback(child.terminate)
            yield from _output_of(child)
            yield _language_pb2.RunPluginResponse(exitcode=child.wait())


def _output_of(child: subprocess.Popen[bytes]) -> Iterator[Any]:
    """Yield a child's output as it is printed, until both streams are closed."""
    answers: queue.Queue[Any] = queue.Queue()

    def pump(stream: Any, field: str) -> None:
        while chunk := stream.read1(65536):
            answers.put(_language_pb2.RunPluginResponse(**{field: chunk}))
        answers.put(None)

    for stream, field in ((child.stdout, "stdout"), (child.stderr, "stderr")):
        threading.Thread(target=pump, args=(stream, field), daemon=True).start()
    open_streams = 2
    while open_streams:
        answer = answers.get()
        if answer is None:
            open_streams -= 1
        else:
            yield answer


def interpreter(info: Any, *, is_plugin: bool = False) -> str:
    """Return the Python interpreter for a plugin: its `virtualenv`, or else this one.

    Args:
        info: `ProgramInfo` of the plugin; a relative `virtualenv` is below its root.
        is_plugin: Whether it is a component plugin, which `pulumi plugin install` gives one.
    """
    named = user_programs.chosen_environment(info)
    if named is None and is_plugin and user_programs.plugin_environment(info).exists():
        named = user_programs.plugin_environment(info)
    return sys.executable if named is None else str(named / "bin" / "python")


def _forget_others(folder: Path) -> None:
    """Unload the modules of the package of a program that another checkout has."""
    loaded = sys.modules.get(folder.name)
    if loaded is not None and folder != Path(loaded.__file__ or "").resolve().parent:
        forget({folder.name})


def forget(packages: Container[str]) -> None:
    """Unload all modules of packages, so that the next import finds those of another folder."""
    for name in list(sys.modules):
        if name.partition(".")[0] in packages:
            del sys.modules[name]


def load_sdks() -> None:
    """Load the slowest SDK modules, if they are installed and needed."""
    unneeded = "pulumi_gcp" if os.environ.get(NO_CLUSTERS) else ""
    for name in _LARGE:
        if unneeded and name.startswith(unneeded):
            continue
        with suppress(ImportError):  # another program's environment has other SDKs
            importlib.import_module(name)


def serve(host: LanguageHost) -> tuple[Any, int]:
    """Start a host on a free loopback port, and return its gRPC server and the port."""
    server: Any = grpc.server(futures.ThreadPoolExecutor(8))
    _language_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = int(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    return server, port


def wait(server: Any, parent: int) -> None:
    """Wait until a server ends, or the parent of this process changes.

    A killed engine does not stop its children; they get another parent.
    """
    with suppress(KeyboardInterrupt):  # how the engine ends its plugins
        while server.wait_for_termination(timeout=_ALIVE_SECONDS) and os.getppid() == parent:
            pass


def main(arguments: list[str]) -> None:
    """Serve on a free loopback port, which is printed."""
    gc.disable()  # loading the SDKs makes a million objects that stay: a second less
    speed_up_imports()
    addresses = [argument for argument in arguments if not argument.startswith("-")]
    engine = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
    host = LanguageHost(
        addresses[0] if addresses else "", shows_debugging=asks_for_debugging(engine)
    )
    server, port = serve(host)
    print(port, flush=True)  # noqa: T201 - the engine reads it
    wait(server, os.getppid())


if __name__ == "__main__":
    main(sys.argv[1:])
