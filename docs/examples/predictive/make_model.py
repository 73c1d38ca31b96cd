# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy>=2", "onnx>=1.18"]
# ///
"""Train the classifier of this example and write it as ONNX: `uv run make_model.py [FOLDER]`.

A request has the raw features of payments; the model scales them and returns the probability that
each payment is a fraud. The payments are drawn from the distributions below with a fixed seed, so
that the example needs no data of anyone. It shows how a model is served, not how frauds look.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

FEATURES = ("amount_usd", "hour", "payments_last_day", "account_days", "is_abroad", "is_new_device")
"""Order of the features in the tensor `features`."""
_HIDDEN = 8
_PAYMENTS = 5_000
_STEPS = 500
_RATE = 1.0


def payments(count: int, seed: int) -> tuple[Any, Any]:
    """Return features of payments, and 1.0 for each that is a fraud.

    The odds of a fraud rise with the amount, at night, with many payments, young accounts, abroad
    and on a new device.
    """
    random = np.random.default_rng(seed)
    rows = np.column_stack(
        (
            random.lognormal(3.5, 1.1, count),
            random.integers(0, 24, count),
            random.poisson(2.0, count),
            random.exponential(600.0, count),
            random.random(count) < 0.08,
            random.random(count) < 0.12,
        )
    ).astype(np.float64)
    amount, hour, often, days, abroad, new = rows.T
    odds = (
        -6.0
        + 1.1 * np.log(amount / 30)
        + 1.2 * (hour < 6)
        + 0.35 * often
        - 0.0015 * days
        + 1.8 * abroad
        + 1.6 * new
    )
    return rows, (random.random(count) < 1 / (1 + np.exp(-odds))).astype(np.float64)


def trained(seed: int = 7) -> dict[str, Any]:
    """Return the parameters of a network with one hidden layer, trained on seeded payments."""
    rows, frauds = payments(_PAYMENTS, seed)
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    scaled = (rows - mean) / deviation
    random = np.random.default_rng(seed)
    first = random.normal(0, 0.5, (len(FEATURES), _HIDDEN))
    first_bias, second, second_bias = np.zeros(_HIDDEN), random.normal(0, 0.5, (_HIDDEN, 1)), 0.0
    for _ in range(_STEPS):
        hidden = np.tanh(scaled @ first + first_bias)
        guess = 1 / (1 + np.exp(-(hidden @ second + second_bias)))
        wrong = (guess - frauds[:, None]) / len(rows)
        back = (wrong @ second.T) * (1 - hidden**2)
        second -= _RATE * hidden.T @ wrong
        second_bias -= _RATE * float(wrong.sum())
        first -= _RATE * scaled.T @ back
        first_bias -= _RATE * back.sum(axis=0)
    found = {
        "mean": mean,
        "deviation": deviation,
        "first": first,
        "first_bias": first_bias,
        "second": second,
        "second_bias": np.array([second_bias]),
    }
    return {name: np.asarray(value, np.float32) for name, value in found.items()}


def probabilities(parameters: dict[str, Any], rows: Any) -> Any:
    """Return what the model answers, computed by NumPy."""
    scaled = (np.asarray(rows, np.float32) - parameters["mean"]) / parameters["deviation"]
    hidden = np.tanh(scaled @ parameters["first"] + parameters["first_bias"])
    return 1 / (1 + np.exp(-(hidden @ parameters["second"] + parameters["second_bias"])))


def model(parameters: dict[str, Any]) -> Any:
    """Return the model as ONNX, whose first dimension is the batch."""
    from onnx import TensorProto, checker, helper, numpy_helper  # noqa: PLC0415 - `probabilities` needs none

    nodes = [
        helper.make_node("Sub", ["features", "mean"], ["centered"]),
        helper.make_node("Div", ["centered", "deviation"], ["scaled"]),
        helper.make_node("Gemm", ["scaled", "first", "first_bias"], ["sums"]),
        helper.make_node("Tanh", ["sums"], ["hidden"]),
        helper.make_node("Gemm", ["hidden", "second", "second_bias"], ["odds"]),
        helper.make_node("Sigmoid", ["odds"], ["probability"]),
    ]
    given = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", len(FEATURES)])
    answer = helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 1])
    values = [numpy_helper.from_array(value, name) for name, value in parameters.items()]
    graph = helper.make_graph(nodes, "fraud", [given], [answer], values)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    checker.check_model(made)
    return made


def main() -> None:
    """Write the model into a model repository, by default the one beside this file."""
    default = Path(__file__).parent / "weights" / "models" / "fraud" / "1"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model(trained()).SerializeToString())


if __name__ == "__main__":
    main()
