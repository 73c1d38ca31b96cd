"""Estimates for a model before deployment: memory, speed, price and cold start.

Nothing here uses the network or Pulumi. The twin takes its roofline from here. From the components
it takes the catalogue of accelerators, the price table, and the memory arithmetic of
`gke_inference.sizing`.
"""
