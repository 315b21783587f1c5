#!/usr/bin/python3
"""Prints the weights that tests/device/test_updates.c expects: what PyTorch's optimizers make of four weights in six steps,
in double precision, after the first and after the last step. Written with PyTorch 1.13; needs python3-torch to run again."""
import torch

WEIGHTS = [0.5, -1.25, 2.0, 0.0625]
STEPS = 6


def gradient(t):
    return [0.25 * t, -0.5, 0.125 * (-1) ** t, 1.0 / t]


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD, decay": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.05),
    "SGD, momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.05),
    "SGD, Nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.05),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1),
    "RMSProp": lambda p: torch.optim.RMSprop(p, lr=0.01, alpha=0.9, eps=0.1, weight_decay=0.05),
    "RMSProp, momentum": lambda p: torch.optim.RMSprop(p, lr=0.01, alpha=0.9, eps=0.1, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1),
}

for name, make in OPTIMIZERS.items():
    weight = torch.nn.Parameter(torch.tensor(WEIGHTS, dtype=torch.float64))
    optimizer = make([weight])
    for t in range(1, STEPS + 1):
        weight.grad = torch.tensor(gradient(t), dtype=torch.float64)
        optimizer.step()
        if t in (1, STEPS):
            print(f"{name}, step {t}:", ", ".join(repr(x) for x in weight.detach().tolist()))
