"""The image server on this machine: the real pipeline on CPUs, and a simulated one."""
