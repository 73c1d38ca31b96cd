"""The public names of the project, their stability, and the record of them."""
