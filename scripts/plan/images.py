"""`gke-inference plan` of a model that generates images."""

from gke_inference.catalogue.input_error import InputError
from gke_inference.sizing.architectures import Architecture
from planner.choice.image_plan import picture_choices
from scripts.plan.filters import PLAN_OPTIONS, Filters, no_hardware
from scripts.plan.show import images_as_json, print_images
from scripts.terminal.console import CommandError
from scripts.terminal.options import option_of


def refuse_for_images(model: Architecture, options: dict[str, object]) -> None:
    """Refuse options that do not apply to image generation.

    Raises:
        CommandError: One of them is given.
    """
    for option, value in options.items():
        if value:
            raise CommandError(
                f"{option}: must be omitted for {model.name}, which generates images"
            )


def print_image_plan(
    model: Architecture, rate: float, filters: Filters, rows: int, *, as_json: bool
) -> None:
    """Print the cost of images on each accelerator.

    Args:
        model: Model that generates images.
        rate: Peak images per second.
        filters: Hardware to consider.
        rows: Number of choices to show.
        as_json: Whether to print JSON.

    Raises:
        CommandError: The rate is out of range, or no hardware is left.
    """
    try:
        choices = picture_choices(
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
    if as_json:
        print(images_as_json(choices))
    else:
        print_images(model, rate, model.steps, choices[:rows])
