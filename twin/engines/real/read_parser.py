"""A program for the real vLLM's interpreter that reports which command lines it accepts.

`read_parser.py table` prints every flag with aliases and choices; `read_parser.py check` reads a
JSON list of command lines and prints the error of each, empty if it is accepted.
`read_parser.py create` reads a JSON list of `{"argv": …, "config": …}`, makes the engine's
configuration for a model with this `config.json` and no weights, and prints the error of each.
`read_parser.py registries` prints the values of flags that it looks up when it starts.
"""

import contextlib
import importlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any


def _parser() -> Any:
    # imported by name, because the checkout's own environment has no vLLM
    utils: Any = importlib.import_module("vllm.utils.argparse_utils")
    arguments: Any = importlib.import_module("vllm.entrypoints.launchers.cli_args")
    return arguments.make_arg_parser(utils.FlexibleArgumentParser())


def table(parser: Any) -> dict[str, Any]:
    """Return the flags by name."""
    out: dict[str, Any] = {}
    for action in parser._actions:
        names: list[str] = action.option_strings
        if names and names[0] != "-h":
            choices = None if action.choices is None else [str(one) for one in action.choices]
            out[names[0]] = {"aliases": names[1:], "choices": choices}
    return out


def check(parser: Any, argv: list[str]) -> str:
    """Return the parser's error for a command line; empty if it is accepted."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parser.parse_args(argv)
    except SystemExit:
        return said.getvalue().strip().splitlines()[-1]
    return ""


def create(parser: Any, case: dict[str, Any]) -> str:
    """Return why vLLM cannot make its configuration for a model; empty if it can."""
    engine: Any = importlib.import_module("vllm.engine.arg_utils")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(case["config"]))
        arguments = parser.parse_args([folder, *case["argv"][1:]])
        arguments.model = folder
        try:
            engine.AsyncEngineArgs.from_cli_args(arguments).create_engine_config()
        except ValueError as error:  # pydantic's is one
            return _reason(str(error))
    return ""


def _reason(text: str) -> str:
    """Return vLLM's own words from the message of a validator."""
    lines = [line.strip() for line in text.splitlines()]
    found = next((line for line in lines if line.startswith("Value error, ")), lines[0])
    return found.removeprefix("Value error, ").split(" [type=", 1)[0]


def registries() -> dict[str, list[str]]:
    """Return the values that the installed release knows, by flag without the leading dashes."""
    attention: Any = importlib.import_module("vllm.v1.attention.backends.registry")
    mamba: Any = importlib.import_module("vllm.config.mamba")
    levels: Any = importlib.import_module("vllm.config.vllm")
    formats: Any = importlib.import_module("vllm.transformers_utils.config")
    tokenizers: Any = importlib.import_module("vllm.tokenizers.registry")
    reasoning: Any = importlib.import_module("vllm.reasoning")
    tools: Any = importlib.import_module("vllm.tool_parsers")
    backends = [one.name for one in attention.AttentionBackendEnum]
    return {
        "attention-backend": ["AUTO", *backends],
        "config-format": ["auto", *formats._CONFIG_FORMAT_TO_CONFIG_PARSER],
        "mamba-backend": [one.name for one in mamba.MambaBackendEnum],
        "mm-encoder-attn-backend": backends,
        "optimization-level": [str(one.value) for one in levels.OptimizationLevel],
        "reasoning-parser": reasoning.ReasoningParserManager.list_registered(),
        "tokenizer-mode": ["auto", *tokenizers.TokenizerRegistry.tokenizers],
        "tool-call-parser": tools.ToolParserManager.list_registered(),
    }


def main() -> None:
    """Print the result as JSON."""
    if sys.argv[1] == "registries":
        print(json.dumps(registries()))  # noqa: T201
        return
    parser = _parser()
    if sys.argv[1] == "table":
        print(json.dumps(table(parser)))  # noqa: T201
    elif sys.argv[1] == "create":
        print(json.dumps([create(parser, case) for case in json.load(sys.stdin)]))  # noqa: T201
    else:
        print(json.dumps([check(parser, argv) for argv in json.load(sys.stdin)]))  # noqa: T201


if __name__ == "__main__":
    main()
