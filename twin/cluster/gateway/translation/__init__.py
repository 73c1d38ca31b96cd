"""Translation of Gateway API objects to a model of the data plane. Pure."""
