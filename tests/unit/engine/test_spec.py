import json

import pytest

from workloads.engine.spec import SpecError, read

SERVING = {"kind": "gpu", "served_name": "m", "source": "/m", "tensor_parallel": 1}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"serving": {}}, "spec.model: must be given, got none"),
        (
            {"model": "m", "serving": {"gpu": SERVING}},
            "spec.serving.gpu.context_tokens: must be given, got none",
        ),
        ({"model": "m", "serving": {}, "port": 1}, "spec.port: is not a field, got 1"),
    ],
)
def test_a_spec_with_a_missing_or_unknown_field_is_refused_with_its_path(content, problem):
    with pytest.raises(SpecError) as refused:
        read(json.dumps(content))
    assert str(refused.value) == problem
