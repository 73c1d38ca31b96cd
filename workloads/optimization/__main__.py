"""`python3 -m workloads.optimization ROLE FILE`."""

import sys

from workloads.optimization.main import main

sys.exit(main(sys.argv[1:]))
