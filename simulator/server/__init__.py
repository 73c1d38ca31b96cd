"""A model of vLLM: its flags, its HTTP API, its metrics, its scheduler and its speed.

`flags` reads a container's arguments as vLLM does, `settings` turns them into a deployment on some
hardware, `kv_cache` and `scheduler` are pure and know no clock, `cost` says how long a step takes,
`engine` drives them on a clock, and `server` puts HTTP in front.
"""
