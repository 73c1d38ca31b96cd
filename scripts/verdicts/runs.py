"""Runs the real engine on two checkouts: the state of the base, and the head's changes to it.

Nothing is created: the providers simulate the cloud's answers (`twin.pulumi.recording`). Each side
runs the program of its own checkout, with the engine, providers and Python packages of this one.
"""

import gc
import json
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from infra.reading.load import EngineLoader
from infra.reading.variants import with_delivered
from infra.stack.problems import StackError
from scripts.shared.engine import attached_to
from scripts.shared.platform_state import seed_platform, write_state
from scripts.shared.preview_states import preview_errors
from scripts.shared.program_hosts import language_hosts
from scripts.shared.scratch_project import backend, scratch_project
from scripts.shared.tool_setup import ensure_tools
from scripts.terminal.console import one_line
from scripts.verdicts.checkouts import Checkout
from twin import daemon
from twin.host.paths import TwinPaths
from twin.pulumi.environment import pulumi_environment
from twin.pulumi.official import OfficialPlugins
from twin.pulumi.recording import ENDPOINT as RECORDED_ENDPOINT
from twin.pulumi.recording import recording
from twin.pulumi.warm_hosts import WarmHosts

State = dict[str, Any]
Step = dict[str, Any]
_KEYS = ("encryptedkey", "encryptionsalt", "secretsprovider")
_CLI = {
    "PULUMI_EXPERIMENTAL": "true",
    # The state is written once, at the end: no resource exists that a crash could lose.
    "PULUMI_SKIP_CHECKPOINTS": "true",
}
_LAST_LINES = 15
_TREE = "/tree/"
"""Folder of a checkout; other places are of libraries."""
_PLACE = re.compile(r'File "([^"]+)", line (\d+)')


class RunError(Exception):
    """A side cannot be run; the message names the side and the reason."""

    def __init__(self, side: Checkout, why: str) -> None:
        super().__init__(f"{side.name}: {why}")
        self.side = side


@dataclass(frozen=True)
class Runner:
    """The Pulumi CLI with providers that create nothing."""

    environment: dict[str, str]
    hosts: WarmHosts | None = None
    """Language hosts, one for each run; None if the CLI starts its own."""
    running: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])
    stopped: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Stop all runs, including those that threads are about to start."""
        self.stopped.set()
        for process in list(self.running):
            process.terminate()

    def run(self, project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `pulumi` in a project."""
        checkout = (project / "infra").resolve().parent
        environment = {
            **os.environ,
            **self.environment,
            **backend(project.parent),
            # The packages are installed from this program's checkout; the side's own come first.
            "PYTHONPATH": str(checkout / "components"),
        }
        argv = ["pulumi", *arguments, "--non-interactive", "--color", "never"]
        with attached_to(self.hosts, arguments[0], environment) as more:
            return self._run(argv, project, {**environment, **more})

    def _run(
        self, argv: list[str], project: Path, environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        pipe = subprocess.PIPE
        with subprocess.Popen(
            argv, cwd=project, env=environment, text=True, stdout=pipe, stderr=pipe
        ) as process:
            self.running.append(process)
            if self.stopped.is_set():  # it started while `stop` went through the list
                process.terminate()
            output, errors = process.communicate()
            self.running.remove(process)
        return subprocess.CompletedProcess(argv, process.returncode, output, errors)


@contextmanager
def runner(official: OfficialPlugins | None = None) -> Generator[Runner]:
    """Yield the CLI with its own providers, which stop at the end of the block.

    Args:
        official: the language host that runs programs, instead of the twin's own.

    Raises:
        twin.toolchain.ToolError: A tool is not available.
    """
    ensure_tools("engine")
    with tempfile.TemporaryDirectory(prefix="gke-inference-verdict-") as folder:
        paths = TwinPaths(Path(folder))
        daemon.prepare(paths)
        hosts = language_hosts(paths, official)  # a side's own modules are loaded by its runs
        with nullcontext() if hosts is None else closing(hosts), recording(paths) as ports:
            environment = {**pulumi_environment(paths, ports, official), **_CLI}
            collects = gc.isenabled()
            gc.disable()  # states are read once and kept: this saves a third of the time
            try:
                yield Runner(environment, hosts)
            finally:
                if collects:
                    gc.enable()


@dataclass(frozen=True)
class Run:
    """Results of the engine for one stack."""

    before: tuple[State, ...]
    """Resources of the base after an `up`; empty if the base does not have the stack."""
    steps: tuple[Step, ...]
    """Steps of the engine, including unchanged resources."""

    @property
    def after(self) -> list[State]:
        """Resources of the head after an `up`; values may be unknown."""
        found = {
            step["urn"]: step["newState"]
            for step in self.steps
            if step.get("newState") and step["op"] not in {"delete", "delete-replaced"}
        }
        return list(found.values())


def compare(cli: Runner, stack: str, base: Checkout | None, head: Checkout | None) -> Run:
    """Return the effects of a change from `base` to `head` on a stack.

    A side without the stack is None.

    Raises:
        RunError: a side's program cannot be read or fails.
    """
    with tempfile.TemporaryDirectory(prefix="gke-inference-stack-") as folder:
        before: tuple[State, ...] = ()
        if base is not None:
            project = _project(Path(folder) / "base", stack, base)
            before = _recorded(cli, stack, base, project)
        if head is None:
            gone = tuple({"op": "delete", "urn": each["urn"], "oldState": each} for each in before)
            return Run(before, gone)
        project = _project(Path(folder) / "head", stack, head)
        if base is not None:
            state = project.parent / "state"
            state.rmdir()
            state.symlink_to(Path(folder) / "base" / "state")
            _seed(stack, head, project)
        else:
            _init(stack, head, project)
        return Run(before, _previewed(cli, stack, head, project))


def _project(folder: Path, stack: str, side: Checkout) -> Path:
    folder.mkdir()
    file = side.root / "stacks" / f"Pulumi.{stack}.yaml"
    try:
        text = with_delivered(without_keys(file.read_text()))
        return scratch_project(folder, stack, text, side.root)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RunError(side, f"the stack file cannot be read: {one_line(str(error))}") from error


def without_keys(text: str) -> str:
    """Return a stack file that can be read without a key; text without secrets is unchanged.

    Each secret is replaced by its ciphertext: the program gets a value, and a rewritten secret
    shows as a change, without the key.
    """
    document: Any = yaml.load(text, Loader=EngineLoader)  # noqa: S506 - derives from SafeLoader
    if not isinstance(document, dict):
        return text
    whole = cast("dict[str, Any]", document)
    plain = {key: value for key, value in whole.items() if key not in _KEYS}
    if plain == whole and "secure:" not in text:
        return text
    return json.dumps(_opened(plain))


def _opened(value: Any) -> Any:
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        if given.keys() == {"secure"}:
            return given["secure"]
        return {key: _opened(item) for key, item in given.items()}
    if isinstance(value, list):
        return [_opened(item) for item in cast("list[Any]", value)]
    return value


def _init(stack: str, side: Checkout, project: Path) -> None:
    write_state(project.parent / "state", stack)
    _seed(stack, side, project)


def _seed(stack: str, side: Checkout, project: Path) -> None:
    """Add the state of a serving stack's platform, as that side plans it."""
    try:
        seed_platform(project.parent / "state", stack, side.root / "stacks", RECORDED_ENDPOINT)
    except StackError as error:
        raise RunError(side, one_line(str(error))) from None


def _recorded(cli: Runner, stack: str, side: Checkout, project: Path) -> tuple[State, ...]:
    """Deploy a stack without creating anything, and return its resources."""
    _init(stack, side, project)
    done = cli.run(project, "up", "-s", stack, "--yes", "--skip-preview", "--suppress-outputs")
    if done.returncode:
        raise RunError(
            side,
            "the program does not run with the twin and the packages of this checkout, so there is "
            f"nothing to compare with: {reason(done.stdout + done.stderr)}",
        )
    [file] = (project.parent / "state" / ".pulumi" / "stacks").glob(f"*/{stack}.json")
    document: State = json.loads(file.read_text())
    resources: list[State] = document["checkpoint"]["latest"]["resources"]
    for each in resources:
        # A protected resource would end the preview at once and hide the other changes.
        each.pop("protect", None)
    file.write_text(json.dumps(document))
    return tuple(resources)


def reason(output: str) -> str:
    """Return the errors in the output of the CLI, on one line, as `brief` does."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    at = next((n for n, line in enumerate(lines) if line == "Diagnostics:"), None)
    told = lines[at + 1 :] if at is not None else lines
    whole = " ".join(told)
    short = brief(whole)  # of all lines, because the last place is in one of the last
    return short if short != whole else " ".join(told[:_LAST_LINES])


def brief(error: str) -> str:
    """Return an error of a program with the last place of its traceback instead of all of it."""
    said, _, trace = error.partition(" Traceback (most recent call last):")
    places = _PLACE.findall(trace)
    if not places:
        return error
    own = [place for place in places if _TREE in place[0]]
    file, line = (own or places)[-1]
    return f"{said} ({file.rpartition(_TREE)[2]}, line {line})"


def _previewed(cli: Runner, stack: str, side: Checkout, project: Path) -> tuple[Step, ...]:
    answer = cli.run(project, "preview", "-s", stack, "--json", "--show-sames")
    if answer.returncode:
        told = preview_errors(answer.stdout) or reason(answer.stderr + answer.stdout)
        raise RunError(side, f"the preview failed: {brief(one_line(told))}")
    return tuple(json.loads(answer.stdout)["steps"])
