"""What a change of the repository does to the platforms made of it: the parts of `verdict`."""
