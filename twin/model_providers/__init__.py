"""External model providers that backends call, each with its documented API dialect."""
