"""`gke-inference plan` of a model of images or videos, and of prompts with images."""

import re

from gke_inference.catalogue.input_error import InputError
from gke_inference.sizing.architectures import Architecture
from gke_inference.sizing.image_prompts import has_known_images, tokens_of_image
from gke_inference.sizing.shapes import shape
from planner.choice.image_plan import image_choices
from scripts.plan.filters import PLAN_OPTIONS, Filters, no_hardware
from scripts.plan.show import images_as_data, print_images
from scripts.terminal.console import CommandError
from scripts.terminal.options import option_of
from scripts.terminal.output import Output, print_data

_SIZE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")


def image_tokens(model: Architecture, images: int, size: str) -> int:
    """Return the tokens of the images of a prompt.

    Args:
        model: Text model.
        images: Images per prompt.
        size: Width and height in pixels, such as `1024x768`.

    Raises:
        CommandError: The size is not valid, or the model accepts no images.
    """
    if not images:
        return 0
    found = _SIZE.fullmatch(size)
    if found is None:
        raise CommandError(f"--image-size: must be WIDTHxHEIGHT in pixels, got {size!r}")
    served = shape(model)
    if not has_known_images(served):
        raise CommandError(
            f"--images: must be 0 for {model.name}: it accepts none, or the tokens of an image"
            f" are not known; got {images}"
        )
    try:
        return images * tokens_of_image(served, int(found[1]), int(found[2]))
    except ValueError as error:
        raise CommandError(f"--image-size: {error}") from None


def print_image_plan(
    model: Architecture, rate: float, filters: Filters, rows: int, output: Output
) -> None:
    """Print the cost of images or videos on each accelerator.

    Args:
        model: Model that generates images or videos.
        rate: Peak number of them per second.
        filters: Hardware to consider.
        rows: Number of choices to show.
        output: Form of the result.

    Raises:
        CommandError: The rate is out of range, or no hardware is left.
    """
    try:
        choices = image_choices(
            model,
            rate,
            regions=filters.regions,
            provisioning=filters.provisioning,
            accelerators=filters.accelerators,
        )
    except InputError as error:
        raise CommandError(option_of(error, PLAN_OPTIONS)) from None
    if not choices:
        raise CommandError(no_hardware(filters.regions, filters.provisioning))
    if output.is_data:
        print_data(images_as_data(choices), output)
    else:
        print_images(model, rate, model.steps, choices, rows)
