"""A guard of prompts and answers: NVIDIA's NeMo Guardrails behind one HTTP call."""
