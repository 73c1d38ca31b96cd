"""`python3 -m workloads.personal front|work SETTINGS`: runs one role until SIGTERM."""

import sys

from .main import main

sys.exit(main(sys.argv[1:]))
