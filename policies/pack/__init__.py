"""Runs policies on resources: in the engine, and on rendered resources."""
