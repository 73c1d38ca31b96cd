"""What runs inside containers: the launcher, the image server, its kernels."""
