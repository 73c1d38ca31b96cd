"""Whether a stack accepts a model on other hardware, before anything is written."""

import json
from copy import deepcopy
from itertools import chain
from typing import Any

from pydantic import ValidationError

from gke_inference.catalogue.input_error import InputError
from infra.plan import capacity_by_region
from infra.reading.edit import Placement, put
from infra.rules.capacity import check_capacity
from infra.rules.disaggregation import check_disaggregation
from infra.rules.engines import check_engines
from infra.rules.models import check_models
from infra.rules.networks import check_networks
from infra.stack import Platform
from infra.stack.problems import StackError, problems_of


def placement_problem(platform: Any, name: str, placement: Placement) -> InputError | None:
    """Return the first rule on hardware that a model would break on a placement, or None.

    The other models are left out: whether a whole stack is usable is checked when it is written.

    Args:
        platform: Document of the stack.
        name: Model of the stack.
        placement: Its hardware.
    """
    alone = {
        **platform,
        "models": {name: deepcopy(platform["models"][name])},
        "capacity": dict(platform["capacity"]),
    }
    try:
        put(alone, name, placement)
        tried = Platform.model_validate_json(json.dumps(alone))
    except StackError as error:
        return error.problems[0]
    except ValidationError as error:
        return problems_of(error)[0]
    used = tried.models[name].capacity
    tried = tried.model_copy(update={"capacity": {used: tried.capacity[used]}})
    by_region = capacity_by_region(tried)
    checks = (
        check_capacity(tried, by_region),
        check_models(tried, by_region),
        check_engines(tried, by_region),
        check_disaggregation(tried, by_region),
        check_networks(tried, by_region),
    )
    return next(chain.from_iterable(checks), None)
