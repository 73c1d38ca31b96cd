"""Reads a stack: from the engine's configuration, or from its file when no engine runs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pulumi
import yaml
from pydantic import ValidationError

from gke_inference.catalogue.input_error import InputError
from infra.rules import check
from infra.stack import Platform
from infra.stack.problems import StackError, join, one_of, problems_of, unread
from infra.stack.receivers import SECRET_KINDS, secret_key

PROJECT: Final = "gke-inference"
KEY: Final = "platform"
STACKS: Final = Path(__file__).resolve().parents[2] / "stacks"


def load() -> Platform:
    """Return the platform of the stack that the engine runs.

    Raises:
        StackError: The stack has no platform, one that cannot be used, or not the secrets for it.
    """
    text = pulumi.Config(PROJECT).get(KEY)
    if text is None:
        raise StackError(
            [InputError(f"{PROJECT}:{KEY}", "is required: the platform of this stack")]
        )
    platform = parse(text)
    if missing := list(missing_secrets(platform)):
        raise StackError(missing)
    return platform


def missing_secrets(platform: Platform) -> Iterator[InputError]:
    """Yield a problem for each receiver whose secret the engine's configuration does not have.

    Only the engine has secrets, so a stack that is read from its file is not asked for them.
    """
    config = pulumi.Config(PROJECT)
    for name, receiver in platform.monitoring.notify.items():
        if receiver.kind in SECRET_KINDS and config.get_secret(secret_key(name)) is None:
            yield InputError(
                join("monitoring", "notify", name),
                f"must have a secret where kind is {receiver.kind.value}",
                None,
                f": pulumi config set --secret {PROJECT}:{secret_key(name)}",
            )


def parse(text: str) -> Platform:
    """Return the platform that a JSON text describes.

    Raises:
        StackError: The text is not a usable platform; it lists every problem found.
    """
    try:
        platform = Platform.model_validate_json(text)
    except ValidationError as error:
        raise StackError(problems_of(error)) from None
    problems = list(check(platform))
    if problems:
        raise StackError(problems)
    return platform


def stack_names(folder: Path = STACKS) -> list[str]:
    """Return the stacks that have a file, in the order of their names."""
    files = (file.name for file in folder.glob("Pulumi.*.yaml") if file.exists())
    return sorted(name.removeprefix("Pulumi.").removesuffix(".yaml") for name in files)


def read(name: str, folder: Path = STACKS) -> Platform:
    """Return the platform of `Pulumi.NAME.yaml`, read as the engine would.

    Raises:
        StackError: There is no such file, or its platform cannot be used.
    """
    return parse(json.dumps(platform_of(folder / f"Pulumi.{name}.yaml")))


def platform_of(path: Path) -> Any:
    """Return what a stack file says under `gke-inference:platform`, not checked.

    Raises:
        StackError: The file cannot be read, is no YAML, or has no such entry.
    """
    try:
        document: Any = yaml.load(path.read_text(encoding="utf-8"), Loader=EngineLoader)  # noqa: S506 - it derives from SafeLoader
    except FileNotFoundError:
        name = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
        raise StackError([one_of("stack", name, stack_names(path.parent))]) from None
    except OSError as error:
        raise StackError([InputError(path.name, f"cannot be read: {unread(error)}")]) from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise StackError([InputError(path.name, f"is not YAML: {_one_line(error)}")]) from None
    config: Any = document.get("config") if isinstance(document, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(config, dict) or f"{PROJECT}:{KEY}" not in config:
        raise StackError([InputError(path.name, f"must have config: {PROJECT}:{KEY}:")])
    return config[f"{PROJECT}:{KEY}"]  # pyright: ignore[reportUnknownVariableType]


class EngineLoader(yaml.SafeLoader):
    """Reads YAML as the engine does: `yes`, `on` and dates are text. No key may come twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return a mapping as it is written, before `<<` brings keys of others into it.

        Raises:
            yaml.constructor.ConstructorError: a key is written twice, which hides what it says
                first.
        """
        node = super().compose_mapping_node(anchor)
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"key {key.value!r} is written twice, in lines {seen[key.value]} and "
                    f"{line}"
                )
            seen[key.value] = line
        return node


EngineLoader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
EngineLoader.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]
    "tag:yaml.org,2002:bool", re.compile("^(?:[Tt]rue|TRUE|[Ff]alse|FALSE)$"), list("tTfF")
)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
