"""`python -m diffusion`: serve, make a tiny pipeline, compile ahead of time."""

import argparse
import importlib
import json
import logging
import sys
from functools import partial
from pathlib import Path
from typing import Any

from . import config

_TINY = {"flux": ".xla.tiny", "sdxl": ".xla.tiny_sdxl", "wan": ".xla.video.tiny"}
"""Module that writes a tiny pipeline, by family."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="diffusion", description="Image generation on XLA.")
    commands = top.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve OpenAI's images API, or videos")
    serve.add_argument("--config", type=Path, help="JSON file of settings; flags go before it")
    for name, of in config.FLAGS.items():
        serve.add_argument(f"--{name.replace('_', '-')}", type=of, help="see config.py")
    serve.add_argument("--adapter", action="append", default=[], metavar="NAME=FOLDER")
    serve.add_argument(
        "--base-model", action="append", default=[], metavar="JSON", help="BaseModel of config.py"
    )
    serve.add_argument("--size", action="append", default=[], metavar="WIDTHxHEIGHT")
    serve.add_argument("--frames", action="append", default=[], type=int, help="of a video")
    serve.add_argument("--sigma", action="append", default=[], type=float, metavar="SHARE")
    worker = commands.add_parser("worker", help="one chip of a server, which starts it")
    worker.add_argument("--settings", required=True)
    worker.add_argument("--number", type=int, required=True)
    train = commands.add_parser("train", help="fit a LoRA adapter to a folder of images")
    train.add_argument("--config", type=Path, required=True, help="JSON file, see training.py")
    tiny = commands.add_parser("tiny", help="write a pipeline of random numbers, to try things")
    tiny.add_argument("folder", type=Path)
    tiny.add_argument("--family", choices=tuple(_TINY), default="flux")
    tiny.add_argument("--adapter", action="append", default=[], help="also a LoRA of this name")
    ahead = commands.add_parser("compile", help="compile every program ahead of time")
    ahead.add_argument("--config", type=Path, required=True, help="JSON file of settings")
    ahead.add_argument("--chip", default="v6e", help="v6e, v5e, or cpu for this machine")
    ahead.add_argument("--out", type=Path, required=True, help="folder of the programs")
    ahead.add_argument("--rank", type=int, action="append", default=[], help="of adapters, too")
    return top


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit status. Modules that need JAX are imported on use."""
    given = parser().parse_args(argv)
    try:
        return _run(given)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def settings_of(given: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a file, if there is one, overridden by the flags."""
    settings: dict[str, Any] = json.loads(given.config.read_text()) if given.config else {}
    flags: dict[str, Any] = {name: getattr(given, name) for name in config.FLAGS}
    settings |= {name: value for name, value in flags.items() if value is not None}
    if given.adapter:
        settings["adapters"] = dict(entry.split("=", 1) for entry in given.adapter)
    if given.base_model:
        settings["base_models"] = [_json(text) for text in given.base_model]
    if given.size:
        settings["sizes"] = given.size
    if given.frames:
        settings["frames"] = given.frames
    if given.sigma:
        settings["sigmas"] = given.sigma
    return settings


def _json(text: str) -> Any:
    """Return the JSON of a further model.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"base_models: must be JSON objects, got {text!r}: {error}") from None


def _train(file: Path) -> int:
    from workloads.common import logs  # noqa: PLC0415

    from . import training  # noqa: PLC0415

    logs.set_up(sys.stdout, logging.INFO, with_tracebacks=True)
    run = importlib.import_module(".xla.training.train", __package__)
    return run.train(training.read(file), partial(logs.say, logging.INFO))


def _run(given: argparse.Namespace) -> int:
    if given.command == "serve":
        from . import server  # noqa: PLC0415

        settings = config.from_dict(settings_of(given))
        settings.check_families()
        server.main(settings)
    elif given.command == "worker":
        from . import worker  # noqa: PLC0415

        worker.main(config.from_dict(json.loads(given.settings)), given.number)
    elif given.command == "train":
        return _train(given.config)
    elif given.command == "tiny":
        tiny = importlib.import_module(_TINY[given.family], __package__)
        if given.adapter and not hasattr(tiny, "write_adapter"):
            raise ValueError(f"--adapter: must not be set for {given.family}, got {given.adapter}")
        tiny.write_pipeline(given.folder)
        for number, name in enumerate(given.adapter, 1):
            tiny.write_adapter(given.folder / "adapters" / name, seed=number)
    else:
        ahead = importlib.import_module(".xla.ahead", __package__)
        settings = config.read(given.config)
        settings.check_families()
        ahead.compile_all(settings, given.chip, given.out, given.rank)
    return 0


if __name__ == "__main__":
    sys.exit(main())
