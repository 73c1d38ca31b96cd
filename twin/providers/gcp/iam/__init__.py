"""IAM of the twin's cloud: who calls, and what roles allow."""
