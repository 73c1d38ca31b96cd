"""SGLang, Text Generation Inference and Triton with TensorRT-LLM, in front of the same engine.

Scheduler, cache and speed are those of `simulator.engine`. Routes, bodies, errors, health checks,
flags and metrics are those of each project, in the release that the module names.
"""
