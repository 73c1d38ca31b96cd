# pyright: reportMissingImports=false
"""Generates with diffusers' own pipeline of Stable Diffusion XL what the server was asked.

It runs where diffusers is, not where the tests are. With `--expected-after`, the picture is the one
that the denoiser expects after that step.
"""

import argparse
from functools import wraps

import torch
from diffusers import StableDiffusionXLPipeline

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("out")
parser.add_argument("seed", type=int)
parser.add_argument("width", type=int)
parser.add_argument("height", type=int)
parser.add_argument("--adapter")
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--guidance", type=float, required=True)
parser.add_argument("--expected-after", type=int)
given = parser.parse_args()

pipeline = StableDiffusionXLPipeline.from_pretrained(given.folder)
pipeline.set_progress_bar_config(disable=True)
if given.adapter:
    pipeline.load_lora_weights(given.adapter)
expected, step = [], pipeline.scheduler.step


@wraps(step)  # the pipeline passes its generator to a scheduler that takes one
def watched(*args, **words):
    found = step(*args, **words)
    expected.append(found[1])
    return found


pipeline.scheduler.step = watched
picture = pipeline(
    "a red bicycle",
    height=given.height,
    width=given.width,
    num_inference_steps=given.steps,
    guidance_scale=given.guidance,
    generator=torch.Generator().manual_seed(given.seed),
).images[0]
if given.expected_after is not None:
    latents = expected[given.expected_after - 1] / pipeline.vae.config.scaling_factor
    with torch.no_grad():
        pixels = pipeline.vae.decode(latents).sample
    picture = pipeline.image_processor.postprocess(pixels)[0]
picture.save(given.out)
