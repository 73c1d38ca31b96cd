"""Starts the pipeline, on the runner that its arguments name."""

import sys

from workloads.pipelines.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
