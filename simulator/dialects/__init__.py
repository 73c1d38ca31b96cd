"""SGLang, Text Generation Inference and Triton with TensorRT-LLM, in front of the same engine.

Scheduler, cache and speed are those of `simulator.engine`; what is said about them on the wire,
and refused, is each project's own: routes, bodies, errors, health, flags and metrics of the
release that the module names.
"""
