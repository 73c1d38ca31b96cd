"""Where a deployed stack is, on the twin or in a Google Cloud project; one protocol for both."""
