"""The inference gateway: routes, endpoint picker, body-based router, canaries."""
