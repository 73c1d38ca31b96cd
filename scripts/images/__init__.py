"""The images of engines: listing, pinning, mirroring and building."""
