# pyright: reportMissingImports=false
"""Generates with diffusers' own pipeline what the server was asked.

It runs where diffusers is, not where the tests are. With `--cache`, it prints how many steps reused
the blocks behind the first.
"""

import argparse
import sys

import torch
from diffusers import FirstBlockCacheConfig, FluxPipeline

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("out")
parser.add_argument("seed", type=int)
parser.add_argument("size", type=int)
parser.add_argument("adapter", nargs="?")
parser.add_argument("--steps", type=int, default=2)
parser.add_argument("--sigma", type=float, action="append")
parser.add_argument("--cache", type=float)
given = parser.parse_args()

pipeline = FluxPipeline.from_pretrained(given.folder)
pipeline.set_progress_bar_config(disable=True)
if given.adapter:
    pipeline.load_lora_weights(given.adapter)
computed = []
if given.cache is not None:
    last = pipeline.transformer.single_transformer_blocks[-1]
    forward = last.forward
    last.forward = lambda *args, **words: computed.append(1) or forward(*args, **words)
    pipeline.transformer.enable_cache(FirstBlockCacheConfig(threshold=given.cache))
pipeline(
    "a red bicycle",
    height=given.size,
    width=given.size,
    num_inference_steps=given.steps,
    sigmas=given.sigma,
    max_sequence_length=16,
    generator=torch.Generator().manual_seed(given.seed),
).images[0].save(given.out)
if given.cache is not None:
    sys.stdout.write(f"{given.steps - len(computed)}\n")
