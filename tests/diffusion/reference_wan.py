# pyright: reportMissingImports=false
"""Generates with diffusers' own pipeline of Wan the frames that the server was asked for.

It runs where diffusers is, not where the tests are.
"""

import argparse

import numpy as np
import torch
from diffusers import WanPipeline

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("out")
parser.add_argument("seed", type=int)
parser.add_argument("width", type=int)
parser.add_argument("height", type=int)
parser.add_argument("frames", type=int)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--guidance", type=float, required=True)
parser.add_argument("--negative", default="")
parser.add_argument("--adapter", action="append", default=[])
parser.add_argument("--weight", type=float, action="append")
given = parser.parse_args()

pipeline = WanPipeline.from_pretrained(given.folder)
pipeline.set_progress_bar_config(disable=True)
for at, folder in enumerate(given.adapter):
    pipeline.load_lora_weights(folder, adapter_name=f"a{at}")
if given.weight:
    pipeline.set_adapters([f"a{at}" for at in range(len(given.adapter))], given.weight)
video = pipeline(
    "a red bicycle",
    negative_prompt=given.negative,
    height=given.height,
    width=given.width,
    num_frames=given.frames,
    num_inference_steps=given.steps,
    guidance_scale=given.guidance,
    max_sequence_length=16,
    generator=torch.Generator().manual_seed(given.seed),
).frames[0]
np.save(given.out, np.round(np.asarray(video) * 255).astype(np.uint8))
