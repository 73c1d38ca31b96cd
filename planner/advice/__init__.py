"""Advice beyond one kind of replica: roles, tiers of KV cache, and a whole stack."""
