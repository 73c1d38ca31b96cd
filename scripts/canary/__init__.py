"""Canaries: a second version of a model, judged and raised step by step."""
