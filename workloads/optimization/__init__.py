"""Jobs that optimize models: quantization, adapters, and evaluations that compare two models."""
