"""The preStop hooks of containers that are being terminated."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from twin.cluster.agent.container import Container
from twin.cluster.agent.probes import Target, check
from twin.wire.kube import JsonObject

# a hook's sleeps are shortened by the twin's speed; its other waits are real
_FASTER = """\
import time as _time
_slept = _time.sleep
_time.sleep = lambda seconds: _slept(min(seconds, max(0.1, seconds / {speed})))
"""
_LOOPBACK = re.compile(r"\b(127\.0\.0\.1|localhost)\b")


def pre_stop_all(
    containers: Iterable[Container],
    address: str,
    speed: float,
    limit: float,
    known: Callable[[dict[str, str]], Mapping[str, str]],
) -> None:
    """Run the hooks of containers in parallel, for at most `limit` seconds.

    Args:
        containers: Running containers.
        address: Address of the pod.
        speed: Speed of the twin.
        limit: Grace period of the pod, in seconds.
        known: Returns those of a container's variables that name other pods, with their addresses.
    """
    threads: list[threading.Thread] = []
    for container in containers:
        hook = container.spec.get("lifecycle", {}).get("preStop")
        if hook:
            container.event("Normal", "Killing", f"Stopping container {container.name}")
            others = known(container.launch.environment)
            arguments = (hook, address, speed, limit, container.target, others)
            threads.append(threading.Thread(target=pre_stop, args=arguments))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit)


def pre_stop(
    hook: JsonObject,
    address: str,
    speed: float,
    limit: float,
    target: Target,
    names: Mapping[str, str] | None = None,
) -> None:
    """Run a hook for at most `limit` seconds.

    Sleeps are divided by `speed`. A Python program runs with the pod's address in place of its
    loopback. An HTTP hook is called. Any other command needs the image and is skipped.

    Args:
        hook: `lifecycle.preStop` of the container.
        address: Address of the pod.
        speed: Speed of the twin.
        limit: Grace period of the pod, in seconds.
        target: Function that resolves ports of the container.
        names: Variables of the container that name other pods, with the pods' addresses.
    """
    if "sleep" in hook:
        time.sleep(min(limit, float(hook["sleep"]["seconds"]) / speed))
    elif "httpGet" in hook:
        check(hook, target, timeout=min(limit, 30.0))
    elif "exec" in hook:
        _exec(hook["exec"].get("command", []), address, speed, limit, names or {})


def _exec(
    command: list[str], address: str, speed: float, limit: float, names: Mapping[str, str]
) -> None:
    slept = seconds_slept(command)
    if slept is not None:
        time.sleep(min(limit, slept / speed))
        return
    if len(command) == 3 and command[0].startswith("python") and command[1] == "-c":
        program = _FASTER.format(speed=speed) + _LOOPBACK.sub(address, command[2])
        try:
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, **names},
                timeout=limit,
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
            )
        except subprocess.TimeoutExpired:
            return  # the kubelet also continues when the grace period is over


def seconds_slept(command: list[str]) -> float | None:
    """Return how long a `sleep` command sleeps, or None for other commands."""
    match = re.fullmatch(r"(?:\S*sh -\w*c )?(?:\S*/)?sleep (\d+(?:\.\d+)?)s?", " ".join(command))
    return float(match.group(1)) if match else None
