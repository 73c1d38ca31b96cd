"""The inference gateway: routes, endpoint picker, body router, canaries."""
