"""The only translation from a stack to the arguments of components."""
