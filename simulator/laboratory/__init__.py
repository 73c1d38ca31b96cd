"""The routing laboratory: policies compared on the same replicas with the same requests.

What decides is real: Envoy, and the endpoint picker of the version that is shipped. What answers is
simulated: engines with vLLM's scheduler and the step times of accelerators.
"""
