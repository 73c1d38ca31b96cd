"""One endpoint for the gateways of several regions."""
