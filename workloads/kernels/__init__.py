"""Attention and rotary embedding for TPUs, with block sizes from tables that a tuner writes.

A package that stands alone: it goes into images beside the programs that use it, so it imports
nothing of this repository but itself. `shapes`, `tables` and `candidates` need no JAX; everything
else does.
"""
