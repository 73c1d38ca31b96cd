"""The parts of `verdict`: the effects of a change of the repository on its platforms."""
