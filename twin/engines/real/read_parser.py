"""A program for the interpreter of a real engine that reports which command lines it accepts.

`read_parser.py ENGINE table` prints every flag with aliases, choices and type; `read_parser.py
ENGINE check` reads a JSON list of command lines and prints the error of each, empty if it is
accepted. `read_parser.py ENGINE create` reads a JSON list of `{"argv": …, "config": …}`, makes the
engine's configuration for a model with this `config.json` and no weights, and prints the error of
each.
`read_parser.py vllm registries` prints the values of flags that vLLM looks up when it starts.
ENGINE is `vllm` or `sglang`.
"""

import argparse
import contextlib
import functools
import importlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

_MODELS = ("--model-path", "--speculative-draft-model-path")


@functools.cache
def _parser(engine: str) -> Any:
    # imported by name, because the checkout's own environment has no engine
    if engine == "sglang":
        server: Any = importlib.import_module("sglang.srt.server_args")
        parser = argparse.ArgumentParser()
        server.ServerArgs.add_cli_args(parser)
        return parser
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
            kind = getattr(action.type, "__name__", None)
            out[names[0]] = {"aliases": names[1:], "choices": choices, "type": kind}
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


def create(engine: str, case: dict[str, Any]) -> str:
    """Return why an engine cannot make its settings for a model; empty if it can."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(case["config"]))
        try:
            (_create_sglang if engine == "sglang" else _create_vllm)(folder, case["argv"])
        except Exception as error:  # noqa: BLE001 - whatever ends the engine is its answer
            return _reason(str(error))
    return ""


def _create_vllm(folder: str, argv: list[str]) -> None:
    arguments = _parser("vllm").parse_args([folder, *argv[1:]])
    arguments.model = folder
    engine: Any = importlib.import_module("vllm.engine.arg_utils")
    engine.AsyncEngineArgs.from_cli_args(arguments).create_engine_config()


def _create_sglang(folder: str, argv: list[str]) -> None:
    named = [word.partition("=")[0] for word in argv]
    words = [f"{name}={folder}" if name in _MODELS else argv[at] for at, name in enumerate(named)]
    server: Any = importlib.import_module("sglang.srt.server_args")
    arguments = server.prepare_server_args([*words, "--device=cpu"])
    arguments.resolve_once()  # as its engine does before it starts
    arguments.check_server_args()


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
    weights: Any = importlib.import_module("vllm.model_executor.layers.quantization")
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
        "quantization": weights.QUANTIZATION_METHODS,
        "reasoning-parser": reasoning.ReasoningParserManager.list_registered(),
        "tokenizer-mode": ["auto", *tokenizers.TokenizerRegistry.tokenizers],
        "tool-call-parser": tools.ToolParserManager.list_registered(),
    }


def main() -> None:
    """Print the result as JSON."""
    engine, what = sys.argv[1:]
    if what == "registries":
        found: Any = registries()
    elif what == "table":
        found = table(_parser(engine))
    elif what == "create":
        found = [create(engine, case) for case in json.load(sys.stdin)]
    else:
        parser = _parser(engine)
        found = [check(parser, argv) for argv in json.load(sys.stdin)]
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
