"""What pictures take and cost: steps, chip time, price.

One picture of 1024 by 1024 pixels with FLUX.1 takes a v6e 0.2 s a step: MaxDiffusion's README says
0.8 s for four pictures of FLUX.1 schnell, four steps, on four chips, one picture a chip, and does
not say whether text encoding and decoding are in it; it is taken for the steps alone. A denoising
step is bound by arithmetic even for one picture, so time goes with pictures and nearly with pixels
(attention grows faster, a sixth of the work at this size, which is left out).
"""

from dataclasses import dataclass

REFERENCE_PIXELS = 1024 * 1024

STEP_SECONDS = {"tpu-v6e": 0.2}
"""Of one picture of the reference size on one chip, by accelerator; MaxDiffusion README,
AI-Hypercomputer/maxdiffusion at 7cfb880."""

TEXT_SECONDS = {"tpu-v6e": 0.02}
"""Assumed: T5-XXL's 4.9 TFLOP for 512 tokens at a quarter of a v6e's 918 TFLOP/s."""

DECODE_SECONDS = {"tpu-v6e": 0.05}
"""Assumed: 2.5 TFLOP of convolutions for the reference size at 5 % of a v6e's peak."""


@dataclass(frozen=True)
class StageSeconds:
    """Seconds of one pass of a batch through each stage, on one chip."""

    text_encode: float
    denoise_step: float
    vae_decode: float

    def request(self, steps: int) -> float:
        """Returns the seconds of a whole batch."""
        return self.text_encode + steps * self.denoise_step + self.vae_decode


def stage_seconds(accelerator: str, *, pixels: int, pictures: int = 1) -> StageSeconds:
    """Returns how long one chip takes for a batch.

    Args:
        accelerator: In the user's word.
        pixels: Of one picture.
        pictures: In the batch, of one prompt.

    Raises:
        ValueError: Nothing is published for the accelerator.
    """
    if accelerator not in STEP_SECONDS:
        known = ", ".join(sorted(STEP_SECONDS))
        raise ValueError(f"accelerator: must be one of {known}, got {accelerator!r}")
    size = pictures * pixels / REFERENCE_PIXELS
    return StageSeconds(
        denoise_step=STEP_SECONDS[accelerator] * size,
        text_encode=TEXT_SECONDS[accelerator],
        vae_decode=DECODE_SECONDS[accelerator] * size,
    )


@dataclass(frozen=True)
class ImageCost:
    """What a thousand pictures cost, and everything that the number rests on."""

    usd: float
    """Of a thousand pictures."""
    seconds_per_picture: float
    """Of one chip."""
    steps: int
    usd_per_chip_hour: float
    utilisation: float
    """Share of the paid time in which a chip draws."""

    def assumptions(self) -> list[str]:
        """Returns the sentences that belong beside the number."""
        return [
            f"{self.steps} steps and {self.seconds_per_picture:.2f} s of one chip a picture",
            f"${self.usd_per_chip_hour:.2f} an hour for a chip with its host",
            f"chips draw {self.utilisation:.0%} of the time that is paid for",
        ]


def cost_of_thousand(
    *, steps: int, seconds: StageSeconds, usd_per_chip_hour: float, utilisation: float = 1.0
) -> ImageCost:
    """Returns what a thousand pictures cost.

    Args:
        steps: Denoising steps: 4 for FLUX.1 schnell, 28 for dev.
        seconds: Of a batch of one picture.
        usd_per_chip_hour: Of one chip; `gke_inference.prices` has it for a machine.
        utilisation: Share of the paid time in which a chip draws, above 0 and at most 1.

    Raises:
        ValueError: A number is out of its range.
    """
    if steps < 1 or usd_per_chip_hour < 0:
        raise ValueError(f"steps and price must be positive, got {steps}, {usd_per_chip_hour}")
    if not 0 < utilisation <= 1:
        raise ValueError(f"utilisation: must be above 0 and at most 1, got {utilisation}")
    takes = seconds.request(steps)
    return ImageCost(
        seconds_per_picture=takes,
        steps=steps,
        usd=1000 * takes / 3600 * usd_per_chip_hour / utilisation,
        usd_per_chip_hour=usd_per_chip_hour,
        utilisation=utilisation,
    )
