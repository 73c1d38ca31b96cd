"""The image server on this machine: the real pipeline on processors, and a simulated one."""
