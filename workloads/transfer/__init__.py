"""Moves weights: from a folder or the Hugging Face hub to buckets, between buckets, and back.

The command line and the job inside a cluster run the same code. It imports nothing of this
repository but `workloads.engine.weights_manifest`.
"""
