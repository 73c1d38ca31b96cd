"""Plans of model servers, from inputs as programs in any language send them."""

from collections.abc import Mapping
from typing import Any

from gke_inference.catalogue.rungs import check_rung
from gke_inference.catalogue.typed_inputs import InputErrors, typed_inputs
from gke_inference.intent.intent import ModelServerArgs
from gke_inference.serving.model_plan import ModelPlan, model_plan


def planned(args: Mapping[str, Any], region: str | None = None) -> ModelPlan:
    """Return the plan of a model server in a region, or in any.

    Raises:
        InputError: The first problem of the inputs.
    """
    try:
        typed = typed_inputs(ModelServerArgs, args)
    except InputErrors as error:
        raise error.problems[0] from None
    return model_plan(typed, [check_rung(rung, region=region) for rung in typed["rungs"]])
