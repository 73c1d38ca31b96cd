"""Generates with diffusers' own pipeline of Stable Diffusion XL what the server was asked.

It runs where diffusers is, not where the tests are. Each image has a file, `out`; with
`expected_after`, it is the one that the denoiser expects after that step.
"""

import argparse
import json
from functools import wraps

import torch
from diffusers import StableDiffusionXLPipeline

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("seed", type=int)
parser.add_argument("width", type=int)
parser.add_argument("height", type=int)
parser.add_argument("images", type=json.loads)
given = parser.parse_args()

pipeline = StableDiffusionXLPipeline.from_pretrained(given.folder)
pipeline.set_progress_bar_config(disable=True)
expected, step = [], pipeline.scheduler.step


@wraps(step)  # the pipeline passes its generator to a scheduler that takes one
def watched(*args, **words):
    found = step(*args, **words)
    expected.append(found[1])
    return found


pipeline.scheduler.step = watched
for image in given.images:
    expected.clear()
    if "adapter" in image:
        pipeline.load_lora_weights(image["adapter"])
    picture = pipeline(
        "a red bicycle",
        height=given.height,
        width=given.width,
        num_inference_steps=image["steps"],
        guidance_scale=image["guidance"],
        generator=torch.Generator().manual_seed(given.seed),
    ).images[0]
    if "expected_after" in image:
        latents = expected[image["expected_after"] - 1] / pipeline.vae.config.scaling_factor
        with torch.no_grad():
            pixels = pipeline.vae.decode(latents).sample
        picture = pipeline.image_processor.postprocess(pixels)[0]
    picture.save(image["out"])
    if "adapter" in image:
        pipeline.unload_lora_weights()
