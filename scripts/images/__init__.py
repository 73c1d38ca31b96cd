"""Container images: listing, pinning, mirroring and building."""
