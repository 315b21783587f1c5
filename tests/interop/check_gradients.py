#!/usr/bin/python3
"""Checks what `gpipe gradients run.yaml --out FILE` wrote for a GPT-2 model against PyTorch: loss and every gradient.

Usage: check_gradients.py FILE --heads N [--tolerance 1e-5]
Needs PyTorch (Debian: python3-torch). Exit status 0 when loss and gradients agree, 1 when they do not, 77 without PyTorch.
"""
import argparse
import json
import math
import struct
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("check_gradients: skipped, PyTorch is not installed")
    sys.exit(77)

DTYPES = {"F32": torch.float32, "F64": torch.float64, "I32": torch.int32}


def read(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensor = torch.frombuffer(bytearray(data[begin:end]), dtype=DTYPES[entry["dtype"]])
        tensors[name] = tensor.reshape(entry["shape"])
    return tensors


def gpt2(parameters, tokens, heads):
    """Pre-norm GPT-2 in double precision, written from its description (Radford et al. 2019)."""
    get = parameters.get
    blocks = 1 + max(int(name.split(".")[1]) for name in parameters if ".attention." in name)
    time = tokens.shape[1]
    x = get("layers.0.token.weight")[tokens] + get("layers.0.position.weight")[:time]
    mask = torch.tril(torch.ones(time, time, dtype=torch.bool))

    def norm(x, prefix):
        weight = get(prefix + ".weight")
        return F.layer_norm(x, weight.shape, weight, get(prefix + ".bias"), 1e-5)

    def linear(x, prefix):
        return F.linear(x, get(prefix + ".weight"), get(prefix + ".bias"))

    for i in range(1, blocks):
        prefix = f"layers.{i}"
        batch, _, width = x.shape
        qkv = linear(norm(x, prefix + ".norm1"), prefix + ".attention.qkv")
        q, k, v = (part.view(batch, time, heads, width // heads).transpose(1, 2) for part in qkv.split(width, dim=2))
        scores = (q @ k.transpose(2, 3)) / math.sqrt(width // heads)
        scores = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        y = (scores @ v).transpose(1, 2).reshape(batch, time, width)
        x = x + linear(y, prefix + ".attention.projection")
        y = F.gelu(linear(norm(x, prefix + ".norm2"), prefix + ".feed_forward.up"), approximate="tanh")
        x = x + linear(y, prefix + ".feed_forward.down")
    x = norm(x, f"layers.{blocks}")
    head = get(f"layers.{blocks + 1}.weight")
    return x @ (head if head is not None else get("layers.0.token.weight")).T


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--heads", type=int, required=True)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    options = parser.parse_args()
    tensors = read(options.file)
    parameters = {
        name[len("parameters.") :]: tensor.double().requires_grad_(True)
        for name, tensor in tensors.items()
        if name.startswith("parameters.")
    }
    logits = gpt2(parameters, tensors["inputs"].long(), options.heads)
    targets = tensors["targets"].long()
    loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=-1)
    loss.backward()
    found = float(tensors["loss"])
    print(f"loss: gpipe {found:.9f}, PyTorch {loss.item():.9f}")
    worst, worst_name = abs(found - loss.item()) / abs(loss.item()), "loss"
    for name, parameter in parameters.items():
        gradient = tensors["gradients." + name].double()
        error = ((gradient - parameter.grad).norm() / parameter.grad.norm().clamp_min(1e-30)).item()
        if error > worst:
            worst, worst_name = error, name
    print(f"{len(parameters)} gradients; largest relative error {worst:.2e} ({worst_name})")
    sys.exit(0 if worst <= options.tolerance else 1)


if __name__ == "__main__":
    main()
