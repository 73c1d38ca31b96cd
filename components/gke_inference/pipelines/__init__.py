"""Pipelines: stateful streaming in Apache Beam on Dataflow, with scores of a model."""
