"""Small real models: safetensors with a header that fits, in one file or in two."""

import json
import random


def safetensors(size, seed):
    """Return a file with one tensor of `size` bytes, the same for the same seed."""
    header = json.dumps(
        {"layer": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    ).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + random.Random(seed).randbytes(size)


def write(folder, sizes=(900_000, 500_000), seed=1):
    """Write a model in parts, with index, configuration and a file in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"model-{n + 1:05d}-of-{len(sizes):05d}.safetensors" for n in range(len(sizes))]
    for name, size in zip(names, sizes, strict=True):
        (folder / name).write_bytes(safetensors(size, f"{seed}{name}"))
    weight_map = {f"layer{at}": name for at, name in enumerate(names)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "seed": seed}))
    (folder / "extra").mkdir(exist_ok=True)
    (folder / "extra" / "tokenizer.json").write_text("{}")
    (folder / ".gitattributes").write_text("hidden")
    return folder
