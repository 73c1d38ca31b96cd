"""Programs that run inside containers: the launcher, the image server, its kernels."""
