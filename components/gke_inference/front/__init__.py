"""One endpoint over the gateways of several regions."""
