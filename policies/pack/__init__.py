"""Runs policies on resources: in the engine, and on what was rendered."""
