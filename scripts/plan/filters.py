"""The options with which `gke-inference plan` narrows the hardware."""

from dataclasses import dataclass

from gke_inference.catalogue.accelerators import accelerator_names
from planner.choice.question import FOR_SERVING
from scripts.terminal.console import CommandError
from scripts.terminal.options import check_words, regions

PLAN_OPTIONS = {
    "given": "--input",
    "input and output": "--input and --output",
    "adapters": "--adapters",
    "kv_bits": "--kv-bits",
    "made": "--output",
    "ttft_p95_ms": "--ttft-p95",
    "tpot_p95_ms": "--tpot-p95",
    "model": "MODEL",
    "speculative": "--speculative",
    "utilisation": "--utilization",
}
"""Options by the planner's fields, where they differ."""


@dataclass(frozen=True)
class Filters:
    """Hardware to consider; empty filters keep all hardware."""

    regions: tuple[str, ...]
    provisioning: tuple[str, ...]
    accelerators: tuple[str, ...]

    @classmethod
    def of(
        cls,
        region: list[str] | None,
        provisioning: list[str] | None,
        accelerator: list[str] | None,
    ) -> "Filters":
        """Return the filters that options give.

        Raises:
            CommandError: A value is not known.
        """
        return cls(
            check_words("--region", region, regions()),
            check_words("--provisioning", provisioning, FOR_SERVING),
            check_words("--accelerator", accelerator, accelerator_names()),
        )


def guess_of(text: str) -> tuple[str, int] | None:
    """Return the method and the draft tokens of `--speculative`, or None if it is not given.

    Raises:
        CommandError: The text has another form.
    """
    if not text:
        return None
    method, _, tokens = text.partition(":")
    if not (tokens.isascii() and tokens.isdigit()):
        raise CommandError(f"--speculative: must be METHOD:TOKENS, such as eagle3:3, got {text!r}")
    return method, int(tokens)


def no_hardware(regions: tuple[str, ...], provisioning: tuple[str, ...]) -> str:
    """Return the error for filters that leave no hardware for a model."""
    return (
        "--region, --provisioning, --accelerator: must leave an accelerator that fits the model,"
        f" got none in {', '.join(regions) or 'any region'} with"
        f" {', '.join(provisioning) or 'any provisioning'}"
    )
