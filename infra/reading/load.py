"""Loads a stack from the engine's configuration, or from its file when no engine is running."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Final

import pulumi
import yaml
from pydantic import ValidationError

from gke_inference.catalogue.input_error import InputError, yaml_problem
from gke_inference.catalogue.problems import join, one_of
from gke_inference.catalogue.user_yaml import UserLoader
from gke_inference.observability.settings import SECRET_KINDS
from infra.reading.layers import (
    SettingsOf,
    combined,
    is_serving,
    of_its_layer,
    shared_settings,
)
from infra.reading.siblings import collisions
from infra.rules import check
from infra.stack import Layer, Platform
from infra.stack.layers import platform_name
from infra.stack.monitoring import secret_key
from infra.stack.problems import StackError, once, problems_of, unread
from infra.stack.renames import RENAMES, old_words, with_new_words

PROJECT: Final = "gke-inference"
KEY: Final = "platform"
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
WITHIN: Final = ("config", f"{PROJECT}:{KEY}")
"""Keys of a stack file that lead to the settings."""
WITH_DELIVERED: Final = "with-delivered"
"""Setting that makes a preview or verdict include the objects of models delivered from git. No
stack file contains it."""
STACKS: Final = Path(__file__).resolve().parents[2] / "stacks"


def load(settings_of: SettingsOf | None = None, *, with_digests: bool = True) -> Platform:
    """Return the platform of the stack that the engine is running.

    Args:
        settings_of: Returns the settings that the platform of a serving stack shares.
        with_digests: Whether images must have the digests that a deployment needs.

    Raises:
        StackError: The stack has no platform, one that cannot be used, or not the secrets for it.
    """
    text = pulumi.Config(PROJECT).get(KEY)
    if text is None:
        raise StackError(
            [InputError(f"{PROJECT}:{KEY}", "is required: the platform of this stack")]
        )
    platform = parse(text, settings_of, with_digests=with_digests)
    if platform.layer is Layer.SERVING:
        refuse_collisions(pulumi.get_stack(), platform, STACKS)
    if missing := list(missing_secrets(platform)):
        raise StackError(missing)
    return platform


def missing_secrets(platform: Platform) -> Iterator[InputError]:
    """Yield a problem for each receiver without a secret in the engine's configuration.

    Only the engine has secrets, so a stack read from its file is not checked.
    """
    config = pulumi.Config(PROJECT)
    for name, receiver in platform.monitoring.notify.items():
        if receiver.kind in SECRET_KINDS and config.get_secret(secret_key(name)) is None:
            yield InputError(
                join("monitoring", "notify", name),
                f"must have a secret when kind is {receiver.kind.value}",
                None,
                f": pulumi config set --secret {PROJECT}:{secret_key(name)}",
            )


def parse(
    text: str, settings_of: SettingsOf | None = None, *, with_digests: bool = True
) -> Platform:
    """Return the platform that a JSON text describes.

    Args:
        text: Value of `gke-inference:platform`.
        settings_of: Returns the settings that the platform of a serving stack shares. Without it,
            serving stacks are rejected.
        with_digests: Whether images must have the digests that a deployment needs.

    Raises:
        StackError: The text is not a usable platform; it lists every problem found.
    """
    text = _accepted(text)
    refused = [each.problem for each in old_words(text, RENAMES)]
    text, _ = with_new_words(text, RENAMES)
    try:
        platform = _parsed(text, settings_of, with_digests=with_digests)
    except StackError as error:
        of_doubled = {each.path for each in refused}
        others = [each for each in error.problems if each.path not in of_doubled]
        raise StackError([*refused, *others]) from None
    if refused:
        raise StackError(refused)
    return platform


def _accepted(text: str, within: tuple[str, ...] = (), file: str = "") -> str:
    """Return a stack with new words for the old ones that are still accepted; warns of each.

    Args:
        text: YAML or JSON.
        within: Keys that lead to the stack's root.
        file: Name of the file, for the warning.
    """
    accepted = tuple(each for each in RENAMES if each.old in text and each.is_accepted)
    text, found = with_new_words(text, accepted, within)
    for each in found:
        _warn(f"{file}: {each.warning}" if file else each.warning)
    return text


@cache
def _warn(line: str) -> None:
    """Report a line once: to the engine, or on standard error where there is none."""
    pulumi.log.warn(line)


def _parsed(text: str, settings_of: SettingsOf | None, *, with_digests: bool) -> Platform:
    document = _serving(text)
    if document is not None:
        if settings_of is None:
            message = "must be all or platform here: a serving stack is read with its platform"
            raise StackError([InputError("layer", message, document["layer"])])
        platform = combined(document, settings_of)
    else:
        try:
            platform = Platform.model_validate_json(text)
        except ValidationError as error:
            problems = problems_of(error)
            whole = f"{PROJECT}:{KEY}"
            of_layer = [each for each in problems if each.path == "layer"]
            raise StackError(each.at(each.path or whole) for each in of_layer or problems) from None
    found = check(platform, with_digests=with_digests)
    problems = once(of_its_layer(platform, problem) for problem in found)
    if problems:
        raise StackError(problems)
    return platform


def _serving(text: str) -> dict[str, Any] | None:
    """Return the document if it is a serving stack; None if it is not or cannot be read."""
    if f'"{Layer.SERVING.value}"' not in text:
        return None
    try:
        document = json.loads(text)
    except ValueError:
        return None  # the parser describes the problem
    return document if is_serving(document) else None


def stack_names(folder: Path = STACKS) -> list[str]:
    """Return the names of all stacks with a file, sorted."""
    files = (file.name for file in folder.glob("Pulumi.*.yaml") if file.exists())
    return sorted(name.removeprefix("Pulumi.").removesuffix(".yaml") for name in files)


def read(name: str, folder: Path = STACKS, *, with_digests: bool = True) -> Platform:
    """Return the platform of `Pulumi.NAME.yaml`, read as the engine would.

    A serving stack is combined with the file of its platform in the same folder; the engine uses
    the platform's outputs instead.

    Args:
        name: Name of the stack.
        folder: Folder of the stack files.
        with_digests: Whether images must have the digests that a deployment needs.

    Raises:
        StackError: There is no such file, or its platform cannot be used.
    """
    text = json.dumps(platform_of(folder / f"Pulumi.{name}.yaml"))
    settings_of = partial(settings_in, folder, with_digests=with_digests)
    platform = parse(text, settings_of, with_digests=with_digests)
    if platform.layer is Layer.SERVING:
        refuse_collisions(name, platform, folder)
    return platform


def refuse_collisions(name: str, platform: Platform, folder: Path) -> None:
    """Raise if a serving stack conflicts with another one in the folder.

    Raises:
        StackError: Names what both have.
    """
    others = {
        each: document
        for each, document in serving_documents(folder).items()
        if platform_name(str(document.get("platform"))) == platform_name(str(platform.platform))
    }
    if problems := list(collisions(name, platform, others)):
        raise StackError(problems)


def serving_documents(folder: Path = STACKS) -> dict[str, Mapping[str, Any]]:
    """Return the raw serving stacks of a folder, by name. Skips files that cannot be read."""
    documents: dict[str, Mapping[str, Any]] = {}
    for name in stack_names(folder):
        file = folder / f"Pulumi.{name}.yaml"
        with suppress(OSError, UnicodeDecodeError, StackError):
            if _SERVING_LINE.search(file.read_text(encoding="utf-8")) is None:
                continue
            document = platform_of(file)
            if is_serving(document):
                documents[name] = document
    return documents


def teams_of(name: str, folder: Path = STACKS) -> dict[str, str]:
    """Return the teams of a platform's serving stacks in a folder, by stack name."""
    return {
        stack: str(document.get("team"))
        for stack, document in serving_documents(folder).items()
        if platform_name(str(document.get("platform"))) == name
    }


def settings_in(folder: Path, reference: str, *, with_digests: bool = True) -> str:
    """Return the settings that a platform shares, from its file.

    Raises:
        StackError: There is no such file, or it is no platform stack that can be used.
    """
    name = platform_name(reference)
    if name not in stack_names(folder):
        problem = one_of("platform", name, stack_names(folder))
        raise StackError([problem])
    document = platform_of(folder / f"Pulumi.{name}.yaml")
    if is_serving(document):
        raise StackError([InputError("platform", "must be a stack with layer: platform", name)])
    try:
        platform = parse(json.dumps(document), with_digests=with_digests)
    except StackError as error:
        found = (problem.at(f"platform {name}: {problem.path}") for problem in error.problems)
        raise StackError(found) from None
    if platform.layer is not Layer.PLATFORM:
        raise StackError([InputError("platform", "must be a stack with layer: platform", name)])
    return shared_settings(platform)


_SERVING_LINE: Final = re.compile(r"^\s*[\"']?layer[\"']?\s*:\s*[\"']?serving\b", re.MULTILINE)
"""Line that marks a serving stack, so that other files need not be parsed."""


def platform_of(path: Path) -> Any:
    """Return the unvalidated value of `gke-inference:platform` in a stack file.

    Raises:
        StackError: The file cannot be read, is no YAML, or has no such entry.
    """
    return platform_in(text_of(path), path.name)


def text_of(path: Path) -> str:
    """Return the text of a stack file.

    Raises:
        StackError: The file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        name = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
        raise StackError([one_of("stack", name, stack_names(path.parent))]) from None
    except OSError as error:
        raise StackError([InputError(path.name, f"cannot be read: {unread(error)}")]) from None
    except UnicodeDecodeError as error:
        raise StackError([InputError(path.name, f"is not YAML: {yaml_problem(error)}")]) from None


def platform_in(text: str, file: str) -> Any:
    """Return the unvalidated value of `gke-inference:platform` in the text of a stack file.

    Args:
        text: Content of the file.
        file: Name of the file, for errors and warnings.

    Raises:
        StackError: The text is no YAML, or has no such entry.
    """
    try:
        document: Any = deepcopy(_document(_accepted(text, WITHIN, file)))
    except yaml.YAMLError as error:
        raise StackError([InputError(file, f"is not YAML: {yaml_problem(error)}")]) from None
    config: Any = document.get("config") if isinstance(document, dict) else None
    if not isinstance(config, dict) or f"{PROJECT}:{KEY}" not in config:
        raise StackError([InputError(file, f"must have config: {PROJECT}:{KEY}:")])
    return config[f"{PROJECT}:{KEY}"]


@lru_cache(maxsize=64)
def _document(text: str) -> Any:
    """Return a stack file's content. A command reads the same file several times."""
    return yaml.load(text, Loader=EngineLoader)  # noqa: S506 - it derives from SafeLoader


class EngineLoader(UserLoader):
    """Parses YAML as the engine does: `yes`, `on` and dates are text. Rejects duplicate keys."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return a mapping as written, before `<<` merges other keys into it.

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

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Return a whole number, whose text can be written again.

        Raises:
            yaml.constructor.ConstructorError: It is in another notation, such as 010 or 1:30.
        """
        text = str(node.value)
        if not _DECIMAL.fullmatch(text):
            raise yaml.constructor.ConstructorError(
                problem=f"line {node.start_mark.line + 1}: must be a decimal number or text, "
                f"got {text} (put it in quotes)"
            )
        return int(text)


EngineLoader.add_constructor("tag:yaml.org,2002:int", EngineLoader.construct_yaml_int)
EngineLoader.yaml_implicit_resolvers = {  # pyrefly: ignore[instance-var-assign] - of the class
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
EngineLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(?:[Tt]rue|TRUE|[Ff]alse|FALSE)$"), list("tTfF")
)
