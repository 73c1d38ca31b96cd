"""Rules between the parts of a stack. What one field may hold alone, its type says."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import InputError
from infra.rules.budget import check_amount, check_budget
from infra.rules.capacity import check_capacity
from infra.rules.disaggregation import check_disaggregation
from infra.rules.engines import check_engines
from infra.rules.gateway import check_gateway
from infra.rules.images import check_images
from infra.rules.models import check_models
from infra.rules.monitoring import check_monitoring
from infra.rules.names import check_names
from infra.rules.pictures import check_pictures
from infra.rules.regions import check_regions
from infra.rules.storage import check_storage
from infra.stack import Platform

__all__ = ["check"]

_CHECKS = (
    check_regions,
    check_capacity,
    check_models,
    check_engines,
    check_pictures,
    check_disaggregation,
    check_gateway,
    check_images,
    check_monitoring,
    check_storage,
    check_budget,
    check_names,
)


def check(platform: Platform) -> Iterator[InputError]:
    """Yield every problem between the parts of a platform, in the order of a stack file."""
    is_sound = True
    for check_part in _CHECKS:
        for problem in check_part(platform):
            is_sound = False
            yield problem
    if is_sound:
        yield from check_amount(platform)
