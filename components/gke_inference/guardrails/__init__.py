"""Guardrails for prompts and answers: Google's Model Armor, and NeMo Guardrails in the cluster."""
