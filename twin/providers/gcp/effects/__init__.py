"""Effects: what actually starts when the twin creates a resource."""
