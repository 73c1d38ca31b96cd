"""Plans of model servers, from inputs as programs in any language send them."""

from collections.abc import Mapping
from typing import Any

from gke_inference.catalogue.rungs import check_rung
from gke_inference.catalogue.typed_inputs import InputErrors, typed_inputs
from gke_inference.intent.intent import ModelServerArgs
from gke_inference.serving.model_plan import ModelPlan, model_plan


def planned(args: Mapping[str, Any]) -> ModelPlan:
    """Return the plan of a model server.

    Raises:
        InputError: The first problem of the inputs.
    """
    try:
        typed = typed_inputs(ModelServerArgs, args)
    except InputErrors as error:
        raise error.problems[0] from None
    return model_plan(typed, [check_rung(rung) for rung in typed["rungs"]])
