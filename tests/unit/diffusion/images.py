"""Files of images, and forms that carry them."""

import base64
import io

from PIL import Image

BOUNDARY = "B"
FORM = [f"multipart/form-data; boundary={BOUNDARY}"]


def file(size=(64, 64), color="red", form="PNG", mode="RGB", **options):
    out = io.BytesIO()
    Image.new(mode, size, color).save(out, form, **options)
    return out.getvalue()


def mask(size=(64, 64), hole=(0, 0, 32, 64), mode="RGBA"):
    image = Image.new(mode, size, "black")
    image.paste((0, 0, 0, 0) if mode == "RGBA" else (0,) * len(image.getbands()), hole)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def url(content, kind="image/png"):
    return {"image_url": f"data:{kind};base64,{base64.b64encode(content).decode()}"}


def form(*parts):
    """Return the body of a form: pairs of a name, and a text or a file."""
    found = b""
    for name, content in parts:
        is_file = isinstance(content, bytes)
        filename = '; filename="a.png"' if is_file else ""
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{filename}\r\n\r\n'
        found += head.encode() + (content if is_file else content.encode()) + b"\r\n"
    return found + f"--{BOUNDARY}--\r\n".encode()
