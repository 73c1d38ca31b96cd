"""Traffic: an open-loop load generator that replays a trace against an OpenAI endpoint.

    trace = Trace.merge("mine", shared_prefix(rate=20, seconds=30, seed=1))
    report = run(trace, "http://127.0.0.1:18080")
    assert report.summary().lost == 0

Requests are sent at the times in the trace, whatever happens to earlier ones. Each is recorded as
answered, refused (with an error that the client can read) or lost (without one).
"""

from simulator.traffic.asks import Prompt, Trace, TraceEntry
from simulator.traffic.client import Client, Options, Pace, Steady, replay, run
from simulator.traffic.generators import mixed_lengths, multi_adapter, poisson_times, shared_prefix
from simulator.traffic.records import Outcome, Record
from simulator.traffic.report import Percentiles, Report, Slo, Summary

__all__ = [
    "Client",
    "Options",
    "Outcome",
    "Pace",
    "Percentiles",
    "Prompt",
    "Record",
    "Report",
    "Slo",
    "Steady",
    "Summary",
    "Trace",
    "TraceEntry",
    "mixed_lengths",
    "multi_adapter",
    "poisson_times",
    "replay",
    "run",
    "shared_prefix",
]
