"""The server that an engine's container starts, and the arguments of the server."""

import re
import shlex
from dataclasses import dataclass

from twin.cluster.agent.launching.environment import ConfigError, expand
from twin.wire.kube import JsonObject

_GAP = r"[\s\0]+"


@dataclass(frozen=True)
class Dialect:
    """A server that containers start, and the simulated server that replaces it."""

    title: str
    image: re.Pattern[str]
    program: tuple[str, ...]
    """Command that starts the server in its image."""
    started: re.Pattern[str]
    """Pattern for all forms of this command."""
    module: tuple[str, ...]
    """Simulated server: a Python module and its first arguments."""
    needs_program: bool = False
    """Whether another server is in the same image, so that the command decides."""

    @property
    def words(self) -> int:
        """Words of the program behind the first."""
        return len(self.program) - 1


VLLM = Dialect(
    "vLLM",
    re.compile(r"(^|/)[^/]*vllm[^/]*$"),
    ("vllm", "serve"),
    re.compile(rf"vllm\.entrypoints\.openai\.api_server|(?:^|[/\s\0])vllm{_GAP}serve"),
    ("simulator.server",),
)
_OTHERS = (
    Dialect(
        "SGLang",
        re.compile(r"(^|/)sglang[^/]*$"),
        ("python3", "-m", "sglang.launch_server"),
        re.compile(rf"sglang\.launch_server|(?:^|[/\s\0])sglang{_GAP}serve"),
        ("simulator.dialects", "sglang"),
    ),
    Dialect(
        "Text Generation Inference",
        re.compile(r"(^|/)(text-generation-inference|tgi-gpu)[^/]*$"),
        ("text-generation-launcher",),
        re.compile(r"text-generation-launcher"),
        ("simulator.dialects", "tgi"),
    ),
    Dialect(
        "Triton Inference Server",
        re.compile(r"(^|/)tritonserver[^/]*$"),
        ("tritonserver",),
        re.compile(r"(?:^|[/\s\0])tritonserver(?=$|[\s\0])"),
        ("simulator.dialects", "tritonserver"),
        needs_program=True,
    ),
    Dialect(
        "Triton",
        re.compile(r"(^|/)(tritonserver|triton-gpu)[^/]*$"),
        ("python3", "/opt/tritonserver/python/openai/openai_frontend/main.py"),
        re.compile(r"openai_frontend/main\.py"),
        ("simulator.dialects", "triton"),
    ),
)


def dialect_of(container: JsonObject) -> Dialect:
    """Return the server of an engine's image; vLLM by default."""
    image = str(container.get("image", ""))
    words: str = "\0".join([*(container.get("command") or ()), *(container.get("args") or ())])
    found = (each for each in _OTHERS if each.image.search(image))
    return next((e for e in found if not e.needs_program or e.started.search(words)), VLLM)


def arguments(
    container: JsonObject, variables: dict[str, str], dialect: Dialect = VLLM
) -> list[str]:
    """Return a server's arguments from a container's command and args.

    Supported: no command (the image's entrypoint is the server), the server's command followed by
    its arguments, and a shell script that contains them.

    Raises:
        ConfigError: The command has another form.
    """
    command = [expand(part, variables) for part in container.get("command", [])]
    given = [expand(part, variables) for part in container.get("args", [])]
    whole = command + given
    if not command and not (given and _is_shell(given)):
        return given[1:] if dialect is VLLM and given[:1] == ["serve"] else given
    if _is_shell(whole):
        return _from_script(whole, variables, dialect)
    line = "\0".join(whole)
    match = dialect.started.search(line)
    if match is None:
        said = f"no {dialect.title} server in the command: {shlex.join(whole)}"
        raise ConfigError(said)
    return [word for word in line[match.end() :].split("\0") if word]


def _is_shell(words: list[str]) -> bool:
    return words[0].rsplit("/", 1)[-1] in ("sh", "bash") and any(
        re.fullmatch(r"-[a-z]*c", word) for word in words[1:3]
    )


def _from_script(words: list[str], variables: dict[str, str], dialect: Dialect) -> list[str]:
    at = next(i for i, word in enumerate(words) if re.fullmatch(r"-[a-z]*c", word)) + 1
    script, positional = words[at].replace("\\\n", " "), words[at + 2 :]
    for line in re.split(r"[;\n]|&&|\|\|", script):
        match = dialect.started.search(line)
        if match is None:
            continue
        rest = re.sub(
            r"\$\{?(\w+)\}?", lambda m: variables.get(m.group(1), ""), line[match.end() :]
        )
        out: list[str] = []
        for word in shlex.split(rest):
            out += positional if word in ("$@", "$*") else [word]
        return out
    raise ConfigError(f"no {dialect.title} server in the shell script of the command")
