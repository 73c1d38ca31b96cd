"""`python3 -m workloads.transfer SPEC`: the job inside a cluster."""

import sys

from workloads.transfer.job import main

sys.exit(main(sys.argv[1]))
