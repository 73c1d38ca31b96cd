"""The recommendations of the CIS GKE Benchmark, and how this project answers each."""
