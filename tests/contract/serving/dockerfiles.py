"""The rules that our Dockerfiles keep, each as one function over the parsed file."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dockerfile_parse import DockerfileParser

from gke_inference.catalogue.versions import parts

Instruction = dict[str, Any]
_SECRET = re.compile(
    r"(?i)(pass(word|wd)?|secret|token|api_?key|credential)\w*\s*=|AKIA[0-9A-Z]{16}"
)
_LAUNCHER = '["python3", "-m", "engine"]'
_ENTRIES = {
    "batch": '["python3", "-m", "workloads.batch"]',
    "callout": '["/callout"]',
    "guardrails": '["python3", "-m", "workloads.guardrails"]',
    "evaluation": '["python3", "-m", "workloads.optimization"]',
    "pipelines": '["/opt/apache/beam/boot"]',
    "optimization": '["python3", "-m", "workloads.optimization"]',
    "personal": '["python3", "-m", "workloads.personal"]',
    "relay": '["/relay"]',
    "body-router": '["/router"]',
    "stream": '["python3", "-m", "workloads.stream"]',
}
"""Of images without an engine, by target."""
_REMOTE = re.compile(r"(?i)^(https?|git|ssh)://|^git@")


@dataclass(frozen=True)
class Dockerfile:
    """What a target of a parsed file runs, and the folder its COPY instructions read from."""

    path: Path
    context: Path
    target: str
    instructions: list[Instruction]
    """Those before the first stage, and those of the stages that the target needs, in order."""

    @classmethod
    def read(cls, path: Path, context: Path, scratch: Path, target: str) -> "Dockerfile":
        """Parse a file; the parser wants one that it may write."""
        parser = DockerfileParser(str(scratch / "Dockerfile"))
        parser.content = path.read_text().replace("${IMAGE}", target)
        head, stages = _stages(parser.structure)
        needed, left = set[str](), [target]
        while left:
            name = left.pop()
            if name in stages and name not in needed:
                needed.add(name)
                left += _sources(stages[name])
        found = [each for name, of in stages.items() if name in needed for each in of]
        return cls(path, context, target, [*head, *found])

    @property
    def last(self) -> list[Instruction]:
        """Instructions of the target's own stage."""
        at = max(at for at, each in enumerate(self.instructions) if each["instruction"] == "FROM")
        return self.instructions[at:]

    def all(self, name: str) -> list[str]:
        """Return the values of an instruction."""
        return [each["value"] for each in self.instructions if each["instruction"] == name]


def targets(path: Path, scratch: Path) -> list[str]:
    """Return the targets of a file that end as an image: those with an entry point."""
    parser = DockerfileParser(str(scratch / "Dockerfile"))
    parser.content = path.read_text()
    _, stages = _stages(parser.structure)
    return [
        name
        for name, of in stages.items()
        if any(each["instruction"] == "ENTRYPOINT" for each in of)
    ]


def _stages(structure: Iterable[Any]) -> tuple[list[Instruction], dict[str, list[Instruction]]]:
    head: list[Instruction] = []
    stages: dict[str, list[Instruction]] = {}
    current = head
    for each in structure:
        if each["instruction"] == "COMMENT":
            continue
        if each["instruction"] == "FROM":
            current = stages.setdefault(each["value"].split()[-1], [])
        current.append(each)
    return head, stages


def _sources(stage: list[Instruction]) -> list[str]:
    """Return the stages that a stage starts from or copies from."""
    copied = [
        word.removeprefix("--from=")
        for each in stage
        if each["instruction"] == "COPY"
        for word in each["value"].split()
        if word.startswith("--from=")
    ]
    return [stage[0]["value"].split()[0], *copied]


def unpinned_bases(file: Dockerfile) -> Iterator[str]:
    """A stage starts from a digest, from the lock (an argument without a default), or from a stage.

    `scratch` is the empty image, which has no digest.
    """
    stages: set[str] = {"scratch"}
    given = ("BASE", *parts())
    for name in given:
        if any(value.startswith(f"{name}=") for value in file.all("ARG")):
            yield f"ARG {name}: must have no default"
    for value in file.all("FROM"):
        words = [word for word in value.split() if not word.startswith("--")]
        pinned = re.search(r"@sha256:[0-9a-f]{64}$", words[0])
        if not pinned and words[0] not in {*(f"${{{name}}}" for name in given), *stages}:
            yield f"FROM {value}: must be ${{BASE}}, a stage or a digest"
        if len(words) == 3:
            stages.add(words[2])


def last_user(file: Dockerfile) -> Iterator[str]:
    """The last user is a number that is not root's: a cluster can check only numbers."""
    users = [each["value"] for each in file.last if each["instruction"] == "USER"]
    if not users or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]):
        yield f"USER: must end as UID:GID, not root, got {users}"


def piped_downloads(file: Dockerfile) -> Iterator[str]:
    """Nothing is downloaded and run, and nothing comes without a hash."""
    for value in file.all("RUN"):
        if re.search(r"(curl|wget)\b", value):
            yield f"RUN {value}: must not download"
        if re.search(r"\bapt(-get)?\b", value):
            yield f"RUN {value}: must not install system packages, which have no lock"
        if re.search(r"pip3? install", value) and "--require-hashes" not in value:
            yield f"RUN {value}: must install with --require-hashes"


def remote_adds(file: Dockerfile) -> Iterator[str]:
    """ADD fetches and unpacks; COPY does neither."""
    for value in file.all("ADD"):
        yield f"ADD {value}: must be COPY"
    for value in file.all("COPY"):
        if any(_REMOTE.match(word) for word in value.split()):
            yield f"COPY {value}: must not be remote"


def secrets(file: Dockerfile) -> Iterator[str]:
    """Arguments and variables stay in an image's history."""
    for name in ("ARG", "ENV", "LABEL", "RUN"):
        for value in file.all(name):
            if _SECRET.search(value):
                yield f"{name} {value}: must hold no secret"


def absent_sources(file: Dockerfile, existing: Callable[[str], bool]) -> Iterator[str]:
    """What is copied from the context is there, and its .dockerignore lets it through."""
    ignore = Path(f"{file.path}.dockerignore").read_text().splitlines()
    for value in file.all("COPY"):
        words = value.split()
        if any(word.startswith("--from=") for word in words):
            continue
        for source in [word for word in words if not word.startswith("--")][:-1]:
            if not existing(source.rstrip("/")):
                yield f"COPY {value}: there is no {source} in the context"
            name = re.sub(r"^images/[^/]+/", "images/*/", source.rstrip("/"))
            allowed = {f"!{name}", f"!{name}/**"}
            if "*" not in ignore or not allowed & set(ignore):
                yield f"COPY {value}: the .dockerignore does not let {source} through"


def shell_entry(file: Dockerfile) -> Iterator[str]:
    """A shell would be process 1 and keep signals from the launcher."""
    for name in ("ENTRYPOINT", "CMD"):
        for value in file.all(name):
            try:
                words = json.loads(value)
            except ValueError:
                words = None
            if not isinstance(words, list):
                yield f"{name} {value}: must be a JSON list"
    if file.all("ENTRYPOINT")[-1:] != [_ENTRIES.get(file.target, _LAUNCHER)]:
        yield "ENTRYPOINT: must be the launcher"


def probes(file: Dockerfile) -> Iterator[str]:
    """Kubernetes probes; a HEALTHCHECK is read by nobody there."""
    for value in file.all("HEALTHCHECK"):
        yield f"HEALTHCHECK {value}: must not be set"


def labels(file: Dockerfile) -> Iterator[str]:
    """The OCI annotations that say what is inside."""
    said = " ".join(file.all("LABEL"))
    for name in ("title", "description", "licenses", "base.name", "revision", "version"):
        if f"org.opencontainers.image.{name}=" not in said:
            yield f"LABEL: must have org.opencontainers.image.{name}"


def problems(file: Dockerfile, existing: Callable[[str], bool]) -> list[str]:
    """Return every broken rule of a file."""
    return [
        *unpinned_bases(file),
        *last_user(file),
        *piped_downloads(file),
        *remote_adds(file),
        *secrets(file),
        *absent_sources(file, existing),
        *shell_entry(file),
        *probes(file),
        *labels(file),
    ]
