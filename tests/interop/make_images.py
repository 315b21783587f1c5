#!/usr/bin/python3
"""Prints what tests/device/test_reference_images.c expects: results of image operations in PyTorch, in double precision, channels
last. Written with PyTorch 1.13; needs python3-torch to run again."""
import math

import torch
import torch.nn.functional as F


def numbers(shape, salt):
    count = math.prod(shape)
    values = [((7 * i + 3 * salt) % 11 - 5) / 4 for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def image(shape):
    """x[n, h, w, c] as PyTorch wants it, [n, c, h, w]."""
    return numbers(shape, 1).permute(0, 3, 1, 2)


def show(name, y):
    y = y.permute(0, 2, 3, 1) if y.dim() == 4 else y
    print(f"{name} {list(y.shape)}:", ", ".join(f"{v:.12g}" for v in y.reshape(-1).tolist()))


show("convolution", F.conv2d(image((1, 4, 5, 2)), numbers((2, 2, 3, 3), 2), numbers((2,), 3)))
show("convolution, everything uneven",
     F.conv2d(image((1, 5, 6, 4)), numbers((4, 2, 3, 2), 2), stride=(2, 3), padding=(1, 2), dilation=(1, 2), groups=2))
show("convolution, depthwise", F.conv2d(image((1, 3, 3, 3)), numbers((6, 1, 2, 2), 2), groups=3))
show("convolution, same, stride 2", F.conv2d(F.pad(image((1, 4, 4, 1)), (0, 1, 0, 1)), numbers((1, 1, 3, 3), 2), stride=2))
show("convolution, same, 1x7", F.conv2d(image((1, 1, 8, 1)), numbers((1, 1, 1, 7), 2), padding=(0, 3)))
show("max pool", F.max_pool2d(image((1, 5, 5, 2)), 3, stride=2, padding=1))
show("max pool, ceil", F.max_pool2d(image((1, 5, 6, 1)), 2, stride=3, padding=0, ceil_mode=True))
show("average pool", F.avg_pool2d(image((1, 5, 5, 2)), 3, stride=2, padding=1, count_include_pad=False))
show("average pool, ceil", F.avg_pool2d(image((1, 5, 5, 1)), 2, stride=2, ceil_mode=True, count_include_pad=False))
show("global average pool", image((2, 2, 3, 2)).mean(dim=(2, 3)))
show("pixel shift", F.pad(image((1, 3, 3, 1))[:, :, 1:, 1:], (0, 1, 0, 1)))
show("upsample", F.interpolate(image((1, 2, 2, 2)), scale_factor=(2, 3), mode="nearest"))
x, weight, bias = image((2, 2, 2, 3)), numbers((3,), 4), numbers((3,), 5)
show("batch norm", F.batch_norm(x, None, None, weight, bias, training=True, eps=1e-3))
show("mean", x.mean(dim=(0, 2, 3)))
show("variance", x.var(dim=(0, 2, 3), unbiased=False))
mean, variance = numbers((3,), 6), numbers((3,), 7).abs() + 0.5
show("batch norm, evaluation, relu", F.relu(F.batch_norm(x, mean, variance, weight, bias, training=False, eps=1e-3)))
