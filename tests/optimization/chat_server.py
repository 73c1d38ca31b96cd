"""A chat endpoint of a tiny model, its adapter and its quantized form, with transformers.

Run with the packages of the image `optimization`: PORT NAME=FOLDER[+ADAPTER] …; NAME/VERSION
answers requests with the header x-model-version.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer


def loaded(place):
    folder, _, adapter = place.partition("+")
    model = AutoModelForCausalLM.from_pretrained(folder)
    if adapter:
        model = PeftModel.from_pretrained(model, adapter)
    return model, AutoTokenizer.from_pretrained(folder)


def answer(model, tokenizer, body):
    text = tokenizer.apply_chat_template(
        body["messages"], tokenize=False, add_generation_prompt=True
    )
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
    with torch.no_grad():
        found = model.generate(input_ids=ids, do_sample=False, max_new_tokens=body["max_tokens"])
    return tokenizer.decode(found[0, ids.shape[1] :], skip_special_tokens=True)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        version = self.headers.get("x-model-version")
        name = f"{body['model']}/{version}" if version else body["model"]
        message = {"content": answer(*MODELS[name], body), "role": "assistant"}
        content = json.dumps({"choices": [{"index": 0, "message": message}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


MODELS = {name: loaded(place) for name, _, place in (each.partition("=") for each in sys.argv[2:])}
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
