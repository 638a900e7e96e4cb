#!/usr/bin/python3
"""Networks of images in plain PyTorch, to compare with `lockstep run`: ResNets and VGG with torchvision's names,
without torchvision, and files of weights and data as lockstep run reads and writes them.

As a program it checks one step: weights before and after a step of plain SGD with learning rate 1 differ by the
gradient, which PyTorch computes again in float64 from the weights before and the first images of the data.

    lockstep run ... --steps=1 --optimizer=sgd --momentum=0 --weight-decay=0 --no-shuffle --export=AFTER \\
        --learning-rate=1       (BEFORE: with 1e-30, which moves nothing)
    bench/torch_images.py --model=resnet --layers=10 --channels=8 --local-batch=6 --loss=2.31 BEFORE AFTER DATA

It prints the largest error of loss, gradients and running statistics, and fails where one is above its bound.
"""
import argparse
import json
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BLOCKS = {10: (1, 1, 1, 1), 18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 14: (1, 1, 1, 1), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
BOTTLENECK = {14, 50, 101}
VGG = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
SMALL_IMAGE = 64  # up to here a ResNet has the stem for CIFAR


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        sizes = [(1, width, 1), (3, width, stride), (1, outputs, 1)] if bottleneck else [(3, width, stride), (3, width, 1)]
        at = inputs
        for i, (kernel, to, step) in enumerate(sizes, 1):
            setattr(self, f"conv{i}", conv(at, to, kernel, step))
            setattr(self, f"bn{i}", nn.BatchNorm2d(to))
            at = to
        self.n = len(sizes)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = x
        for i in range(1, self.n + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = F.relu(y) if i < self.n else y
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, layers, channels, image, colours, classes):
        super().__init__()
        bottleneck = layers in BOTTLENECK
        self.small = image <= SMALL_IMAGE
        self.conv1 = conv(colours, channels, 3 if self.small else 7, 1 if self.small else 2)
        self.bn1 = nn.BatchNorm2d(channels)
        at = channels
        for stage, blocks in enumerate(BLOCKS[layers]):
            width, row = channels << stage, []
            for block in range(blocks):
                row.append(Block(at, width, 2 if stage and not block else 1, bottleneck))
                at = 4 * width if bottleneck else width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*row))
        self.fc = nn.Linear(at, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = x if self.small else F.max_pool2d(x, 3, 2, 1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(x.mean((2, 3)))


class Vgg(nn.Module):
    def __init__(self, layers, channels, _, colours, classes):
        super().__init__()
        features, at = [], colours
        for stage, n in enumerate(VGG[layers]):
            width = min(channels << stage, 8 * channels)
            for _ in range(n):
                features += [nn.Conv2d(at, width, 3, padding=1), nn.ReLU()]
                at = width
            features.append(nn.MaxPool2d(2))
        wide = 64 * channels
        self.features = nn.Sequential(*features)
        # Dropouts, which lockstep has not, keep the numbers of modules.
        self.classifier = nn.Sequential(
            nn.Linear(49 * at, wide), nn.ReLU(), nn.Identity(), nn.Linear(wide, wide), nn.ReLU(), nn.Identity(), nn.Linear(wide, classes)
        )

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 7).flatten(1))


def tensors(path):
    """Names, in order, and values of a file that lockstep run --export wrote: parameters, then buffers."""
    with open(path, "rb") as f:
        header = json.loads(f.readline())
        return {e["name"]: np.frombuffer(f.read(4 * e["elems"]), dtype="<f4") for k in ("parameters", "buffers") for e in header.get(k, [])}


def load(model, values):
    names = [n for n, _ in model.named_parameters()]
    if list(values)[: len(names)] != names:
        raise SystemExit(f"the file's parameters are not the model's: {list(values)[:4]}, {names[:4]}")
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.from_numpy(values[name].copy()).view_as(p))


def images(path, first, count):
    """Samples of a file of CIFAR-10's or MNIST's: pixels as the models take them, and classes."""
    with open(path, "rb") as f:
        data = f.read()
    if data[:4] == b"\0\0\x08\x03":
        _, _, height, width = struct.unpack(">4I", data[:16])
        pixels = np.frombuffer(data, np.uint8, offset=16).reshape(-1, 1, height, width)
        with open(path.replace("images-idx3", "labels-idx1"), "rb") as f:
            classes = np.frombuffer(f.read(), np.uint8, offset=8)
    else:
        records = np.frombuffer(data, np.uint8).reshape(-1, 3073)
        pixels, classes = records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]
    at = slice(first, None if count is None else first + count)
    return torch.from_numpy(pixels[at].astype(np.float64)) * (4 / 255) - 2, torch.from_numpy(classes[at].astype(np.int64))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--model", choices=("resnet", "vgg"), required=True)
    for name, value in (("layers", None), ("channels", None), ("local-batch", None), ("classes", 10)):
        a.add_argument("--" + name, type=int, default=value, required=value is None)
    a.add_argument("--loss", type=float, required=True)
    a.add_argument("--bound", type=float, default=1e-4)
    a.add_argument("files", nargs=3)
    a = a.parse_args()
    before, after = tensors(a.files[0]), tensors(a.files[1])
    x, y = images(a.files[2], 0, a.local_batch)
    model = {"resnet": ResNet, "vgg": Vgg}[a.model](a.layers, a.channels, x.shape[2], x.shape[1], a.classes).double()
    load(model, before)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    worst = {"loss": abs(loss.item() - a.loss)}
    rms = np.sqrt(np.mean(np.concatenate([p.grad.numpy().ravel() ** 2 for p in model.parameters()])))
    for name, p in model.named_parameters():
        ours = before[name].astype(np.float64) - after[name]
        theirs = p.grad.numpy().ravel()
        error = np.linalg.norm(ours - theirs) / (np.linalg.norm(theirs) + 1e-3 * rms * np.sqrt(len(theirs)))
        worst["gradients"] = max(worst.get("gradients", 0), error)
    for name, b in model.named_buffers():
        if "running" in name:
            error = np.abs(after[name] - b.numpy()).max()
            worst["running statistics"] = max(worst.get("running statistics", 0), error)
    print(", ".join(f"{k} {v:.1e}" for k, v in worst.items()))
    if not max(worst.values()) <= a.bound:
        sys.exit(f"above {a.bound}")


if __name__ == "__main__":
    main()
