"""Prometheus metrics of the guard."""

from workloads.common.metrics import Registry

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics(Registry):
    """The metrics of one process."""

    def __init__(self) -> None:
        super().__init__()
        self.checks = self.counter(
            "guardrails_checks",
            "Checks by phase (input, output) and action (allow, block, replace, failed).",
            ["phase", "action"],
        )
        self.seconds = self.histogram(
            "guardrails_check_seconds", "Time of a check by phase, in seconds.", _SECONDS, ["phase"]
        )
