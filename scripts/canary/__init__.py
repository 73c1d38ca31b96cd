"""Canaries: the stepwise rollout of a second version of a model."""
