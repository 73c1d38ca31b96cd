"""`python3 -m workloads.batch serve|work SETTINGS`: runs until SIGTERM."""

import sys

from .main import main

sys.exit(main(sys.argv[1:]))
