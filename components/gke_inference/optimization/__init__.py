"""Jobs that quantize models, train adapters and evaluate the results."""
