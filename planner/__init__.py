"""What a model needs and costs before anything is paid for: memory, speed, price, cold start.

Nothing here uses the network or Pulumi. The twin takes its roofline from here. From the components
it takes the catalogue of accelerators, the price table, and the memory arithmetic of
`gke_inference.sizing`.
"""
