"""What images and Go programs contain: packages, their licenses, and which licenses are allowed."""
