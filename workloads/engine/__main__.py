"""`python3 -m engine --spec FILE`: serve a model on the hardware of this node."""

import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main())
