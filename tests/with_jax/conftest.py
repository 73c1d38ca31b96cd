"""These tests run with the interpreter that has JAX: tests/xla/test_with_jax.py starts them."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("jax") else ["test_*.py"]
