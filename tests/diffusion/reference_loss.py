"""Prints how well diffusers' own denoiser predicts images, without an adapter and with one.

The loss is that of flow matching, over 64 draws of noise that are the same for both.
"""

import json
import sys
from pathlib import Path

import torch
from diffusers import FluxPipeline
from diffusers.image_processor import VaeImageProcessor
from PIL import Image

folder, images, prompt, size, adapter = sys.argv[1:]
side = int(size)
pipeline = FluxPipeline.from_pretrained(folder)
vae = pipeline.vae
found = []
for file in sorted(Path(images).iterdir()):
    pixels = VaeImageProcessor().preprocess(Image.open(file).convert("RGB"), side, side)
    latents = vae.encode(pixels).latent_dist.mode()
    latents = (latents - vae.config.shift_factor) * vae.config.scaling_factor
    found.append(FluxPipeline._pack_latents(latents, *latents.shape))
clean = torch.cat(found)
embeds, pooled, text_ids = pipeline.encode_prompt(prompt, None, max_sequence_length=16)
image_ids = FluxPipeline._prepare_latent_image_ids(1, side // 16, side // 16, "cpu", torch.float32)


def loss():
    torch.manual_seed(3)
    total = 0.0
    for _ in range(64):
        noise, at = torch.randn_like(clean), torch.rand(len(clean))
        share = at[:, None, None]
        flow = pipeline.transformer(
            hidden_states=(1 - share) * clean + share * noise,
            encoder_hidden_states=embeds.repeat(len(clean), 1, 1),
            pooled_projections=pooled.repeat(len(clean), 1),
            timestep=at,
            img_ids=image_ids,
            txt_ids=text_ids,
        ).sample
        total += float(((flow - (noise - clean)) ** 2).mean()) / 64
    return total


with torch.no_grad():
    before = loss()
    pipeline.load_lora_weights(adapter)
    sys.stdout.write(json.dumps([before, loss()]))
