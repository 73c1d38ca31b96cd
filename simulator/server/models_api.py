"""The models of an engine: the base model with its names, and LoRA adapters."""

import time
import uuid
from pathlib import Path
from typing import Any

from aiohttp import web

from simulator.engine.engine import Engine
from simulator.server import adapter_files
from simulator.server.bodies import asks, fields
from simulator.server.bodies.errors import ApiError, unknown_model
from simulator.server.bodies.json_answers import json_response

_LARGEST_RANK = 16  # vLLM's default of --max-lora-rank


class ServedModels:
    """Handlers of `/v1/models` and of loading and unloading adapters."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._deployment = engine.deployment
        self._started = int(time.time())
        self.adapters: dict[str, str] = dict(engine.deployment.adapters)
        """Available adapters: name to path."""

    def resolve(self, name: Any) -> tuple[str, str | None]:
        """Return the name of the responding model and the adapter.

        Raises:
            ApiError: 404 if no model or adapter has this name.
        """
        served = self._deployment.served_names
        if not name:
            return served[0], None
        if name in served:
            return str(name), None
        if name in self.adapters:
            return str(name), str(name)
        raise unknown_model(str(name), served)

    def _card(self, name: str, root: str, parent: str | None, longest: int | None) -> Any:
        return {
            "id": name,
            "object": "model",
            "created": self._started,
            "owned_by": "vllm",
            "root": root,
            "parent": parent,
            "max_model_len": longest,
            "permission": [
                {
                    "id": f"modelperm-{uuid.uuid4().hex}",
                    "object": "model_permission",
                    "created": self._started,
                    "allow_create_engine": False,
                    "allow_sampling": True,
                    "allow_logprobs": True,
                    "allow_search_indices": False,
                    "allow_view": True,
                    "allow_fine_tuning": False,
                    "organization": "*",
                    "group": None,
                    "is_blocking": False,
                }
            ],
        }

    async def show(self, _http: web.Request) -> web.Response:
        """Answer `GET /v1/models`."""
        deployment = self._deployment
        data = [
            self._card(name, deployment.model, None, deployment.max_model_len)
            for name in deployment.served_names
        ]
        data += [
            self._card(name, path, deployment.served_names[0], None)
            for name, path in self.adapters.items()
        ]
        return json_response({"object": "list", "data": data})

    async def load(self, http: web.Request) -> web.Response:
        """Answer `POST /v1/load_lora_adapter`."""
        body = fields.checked(fields.VllmAdapter, await asks.read_json(http))
        name, path = body["lora_name"], body["lora_path"]
        if not name or not path:
            raise _invalid("Both 'lora_name' and 'lora_path' must be provided.")
        if name in self._deployment.served_names:
            raise _invalid(f"The lora adapter '{name}' conflicts with a served base model.")
        if name in self.adapters and not body.get("load_inplace"):
            raise _invalid(
                f"The lora adapter '{name}' has already been loaded. If you want to load the "
                "adapter in place, set 'load_inplace' to True."
            )
        if not self._deployment.flags.enable_lora:
            raise ApiError(500, "Call to add_lora method failed: LoRA is not enabled.")
        folder = self._deployment.surroundings.host_path(str(path)) or Path(str(path))
        rank = int(self._deployment.flags.max_lora_rank or _LARGEST_RANK)
        adapter_files.check(str(name), str(path), folder, rank)
        await self._load_weights(str(name))
        self.adapters[str(name)] = str(path)
        return web.Response(text=f"Success: LoRA adapter '{name}' added successfully.")

    async def _load_weights(self, name: str) -> None:
        busy = self._engine.scheduler.adapters_running
        seconds = self._engine.adapters.load([name], busy)
        await self._engine.clock.sleep_until(self._engine.clock.now() + seconds)

    async def unload(self, http: web.Request) -> web.Response:
        """Answer `POST /v1/unload_lora_adapter`."""
        name = fields.checked(fields.VllmNoAdapter, await asks.read_json(http))["lora_name"]
        if not name:
            raise _invalid("'lora_name' needs to be provided to unload a LoRA adapter.")
        if name not in self.adapters:
            raise ApiError(404, f"The lora adapter '{name}' cannot be found.")
        del self.adapters[name]
        self._engine.adapters.forget(name)
        return web.Response(text=f"Success: LoRA adapter '{name}' removed successfully.")


def _invalid(message: str) -> ApiError:
    return ApiError(400, message, kind="InvalidUserInput")
