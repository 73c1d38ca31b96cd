"""Generates with diffusers' own pipeline what the server was asked.

It runs where diffusers is, not where the tests are. With `--cache`, it prints how many steps reused
the blocks behind the first. With `--expected-after`, it also writes the picture that the denoiser
expects after that step to the file `--expected`.
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
parser.add_argument("adapter", nargs="*")
parser.add_argument("--weight", type=float, action="append")
parser.add_argument("--steps", type=int, default=2)
parser.add_argument("--sigma", type=float, action="append")
parser.add_argument("--cache", type=float)
parser.add_argument("--expected-after", type=int)
parser.add_argument("--expected")
given = parser.parse_args()

pipeline = FluxPipeline.from_pretrained(given.folder)
pipeline.set_progress_bar_config(disable=True)
for at, folder in enumerate(given.adapter):
    pipeline.load_lora_weights(folder, adapter_name=f"a{at}")
if given.weight:
    pipeline.set_adapters([f"a{at}" for at in range(len(given.adapter))], given.weight)
expected, step = [], pipeline.scheduler.step


def watched(flow, at, latents, **words):
    expected.append(latents - pipeline.scheduler.sigmas[len(expected)] * flow)
    return step(flow, at, latents, **words)


pipeline.scheduler.step = watched
computed = []
if given.cache is not None:
    last = pipeline.transformer.single_transformer_blocks[-1]
    forward = last.forward
    last.forward = lambda *args, **words: computed.append(1) or forward(*args, **words)
    pipeline.transformer.enable_cache(FirstBlockCacheConfig(threshold=given.cache))
picture = pipeline(
    "a red bicycle",
    height=given.size,
    width=given.size,
    num_inference_steps=given.steps,
    sigmas=given.sigma,
    max_sequence_length=16,
    generator=torch.Generator().manual_seed(given.seed),
).images[0]
picture.save(given.out)
if given.expected_after is not None:
    packed, scale = expected[given.expected_after - 1], pipeline.vae.config
    latents = pipeline._unpack_latents(packed, given.size, given.size, pipeline.vae_scale_factor)
    with torch.no_grad():
        pixels = pipeline.vae.decode(latents / scale.scaling_factor + scale.shift_factor).sample
    pipeline.image_processor.postprocess(pixels)[0].save(given.expected)
if given.cache is not None:
    sys.stdout.write(f"{given.steps - len(computed)}\n")
