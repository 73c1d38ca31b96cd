"""Generates with diffusers' own pipeline of Wan the frames that the server was asked for.

It runs where diffusers is, not where the tests are. Each video has a file, `out`.
"""

import argparse
import json

import numpy as np
import torch
from diffusers import WanPipeline

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("seed", type=int)
parser.add_argument("width", type=int)
parser.add_argument("height", type=int)
parser.add_argument("videos", type=json.loads)
given = parser.parse_args()

pipeline = WanPipeline.from_pretrained(given.folder)
pipeline.set_progress_bar_config(disable=True)
for video in given.videos:
    adapters = video.get("adapters", {})
    for name, (folder, _) in adapters.items():
        pipeline.load_lora_weights(folder, adapter_name=name)
    if adapters:
        pipeline.set_adapters(list(adapters), [weight for _, weight in adapters.values()])
    frames = pipeline(
        "a red bicycle",
        negative_prompt=video["negative"],
        height=given.height,
        width=given.width,
        num_frames=video["frames"],
        num_inference_steps=video["steps"],
        guidance_scale=video["guidance"],
        max_sequence_length=16,
        generator=torch.Generator().manual_seed(given.seed),
    ).frames[0]
    np.save(video["out"], np.round(np.asarray(frames) * 255).astype(np.uint8))
    if adapters:
        pipeline.unload_lora_weights()
