"""Write adapters of the tiny model: good, of one dimension (flat), and of a larger rank (wide)."""

import sys
from pathlib import Path

from diffusion.xla.tiny import write_adapter
from safetensors.torch import load_file, save_file

live = Path(sys.argv[1])
write_adapter(live / "good", rank=3)
write_adapter(live / "wide", rank=4)
file = write_adapter(live / "flat", rank=3) / "pytorch_lora_weights.safetensors"
save_file({name: value.flatten() for name, value in load_file(file).items()}, file)
