"""`python3 -m stream SETTINGS`: processes a stream until SIGTERM."""

import sys

from .main import main

sys.exit(main(sys.argv[1:]))
