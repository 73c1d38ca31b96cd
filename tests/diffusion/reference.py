# pyright: reportMissingImports=false
"""Draws with diffusers' own pipeline what the server was asked: FOLDER OUT SEED SIZE [ADAPTER].

It runs where diffusers is, not where the tests are.
"""

import sys

import torch
from diffusers import FluxPipeline

folder, out, seed, size, *adapter = sys.argv[1:]
pipeline = FluxPipeline.from_pretrained(folder)
pipeline.set_progress_bar_config(disable=True)
if adapter:
    pipeline.load_lora_weights(adapter[0])
pipeline(
    "a red bicycle",
    height=int(size),
    width=int(size),
    num_inference_steps=2,
    max_sequence_length=16,
    generator=torch.Generator().manual_seed(int(seed)),
).images[0].save(out)
