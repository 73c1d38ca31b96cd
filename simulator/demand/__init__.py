"""Demand: requests by model, team and region over a day, made from a pattern or read from files.

traffic = default_day({"chat": 500.0})
for arrivals in traffic.chunks():
    ...
"""

from simulator.demand.arrivals import MOST, Arrivals, Traffic
from simulator.demand.default_day import default_day, default_pattern
from simulator.demand.generated import Generated
from simulator.demand.pattern import Origin, Pattern
from simulator.demand.reading import read

__all__ = [
    "MOST",
    "Arrivals",
    "Generated",
    "Origin",
    "Pattern",
    "Traffic",
    "default_day",
    "default_pattern",
    "read",
]
