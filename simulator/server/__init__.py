"""A model of vLLM: its flags, its HTTP API, its metrics, its scheduler and its speed.

`vllm_flags` parses a container's arguments like vLLM, and `settings` turns them into a deployment
on some hardware. `kv_cache` and `scheduler` are pure and have no clock. The cost model gives the
time of a step, `engine` runs on a clock, and `server` provides the HTTP API.
"""
