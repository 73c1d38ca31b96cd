"""Changes an image with diffusers' own pipelines; it runs where diffusers is.

Without `--kind`, the pipeline is that of image to image, or with a mask, of inpainting. A mask is
white where the image is edited.
"""

import argparse

import torch
from diffusers import (
    FluxFillPipeline,
    FluxImg2ImgPipeline,
    FluxInpaintPipeline,
    FluxKontextPipeline,
)
from PIL import Image

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("out")
parser.add_argument("seed", type=int)
parser.add_argument("size", type=int)
parser.add_argument("image")
parser.add_argument("--mask")
parser.add_argument("--kind", choices=("fill", "kontext"))
parser.add_argument("--strength", type=float)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--guidance", type=float, default=3.5)
given = parser.parse_args()

kinds = {"fill": FluxFillPipeline, "kontext": FluxKontextPipeline}
of_base = FluxInpaintPipeline if given.mask else FluxImg2ImgPipeline
pipeline = kinds.get(given.kind, of_base).from_pretrained(given.folder)
pipeline.set_progress_bar_config(disable=True)
more = {}
if given.strength is not None:
    more["strength"] = given.strength
if given.mask:
    more["mask_image"] = Image.open(given.mask)
if given.kind == "kontext":
    more |= {"_auto_resize": False, "max_area": given.size**2}
pipeline(
    prompt="a red bicycle",
    image=Image.open(given.image)
    .convert("RGB")
    .resize((given.size,) * 2, Image.Resampling.LANCZOS),
    height=given.size,
    width=given.size,
    num_inference_steps=given.steps,
    guidance_scale=given.guidance,
    max_sequence_length=16,
    generator=torch.Generator().manual_seed(given.seed),
    **more,
).images[0].save(given.out)
