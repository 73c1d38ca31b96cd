"""The routing laboratory: policies compared on the same replicas with the same requests.

The routing programs are real: Envoy, and the shipped version of the endpoint picker. The engines
are simulated, with vLLM's scheduler and the step times of accelerators.
"""
