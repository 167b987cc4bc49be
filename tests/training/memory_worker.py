"""Prints what a step of 512 images is predicted to cost, and the peak of the memory that it takes."""

import json

import torch

from kvicreg.data import ArrayData
from kvicreg.runs import Settings
from kvicreg.training.build import build_method, build_views, resolve
from kvicreg.training.cost import _step, measure
from kvicreg.training.memory import PeakMemory
from kvicreg.training.module import SelfSupervised

settings = Settings.of(width=0.25, projector_hidden=32, projector_outputs=32)
data = ArrayData(torch.randint(0, 256, (512, 3, 64, 64), dtype=torch.uint8), name="noise")
views = build_views(settings, data)
settings = resolve(settings, data, views)
device, *cost = measure(settings, data, views)
step = SelfSupervised(build_method(settings), settings, data=data, views=views)
optimizer, samples = settings.optimizer.build(step.method), torch.arange(512)
with PeakMemory(device) as memory:
    peak = memory.of(lambda: _step(step, optimizer, data.fetch(samples), samples, device))
print(json.dumps([cost, peak]))
