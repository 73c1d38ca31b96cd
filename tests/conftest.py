"""What all tests need, before any of them imports a console."""

import os

# readline, which pytest loads, leaves a width to the workers: what is piped would be folded to it
os.environ.pop("COLUMNS", None)
