"""What a model needs and costs before anything is paid for: memory, speed, price, cold start.

Nothing here uses the network or Pulumi. The twin takes its roofline from here; components and
workloads take memory arithmetic, and nothing here takes anything from them but the catalogue of
accelerators and the price table.
"""
