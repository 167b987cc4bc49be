# %% [markdown]
# # Choosing a kernel without labels
#
# A kernel says how alike two embeddings are. These are the shipped ones, by distance, at the same bandwidth.

# %%
import json
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from kvicreg import kernels
from kvicreg.cli import main

distance = torch.linspace(0, 4, 200)
origin, line = torch.zeros(1, 1), distance[:, None]
figure, axis = plt.subplots(figsize=(7, 3))
for name in ("rbf", "rq", "laplacian", "inverse_multiquadric"):
    axis.plot(distance, kernels.make(name, gamma=1.0)(origin, line)[0], label=name)
axis.set_xlabel("distance")
axis.set_ylabel("k")
axis.legend()

# %% [markdown]
# `kvicreg select` trains candidates for a few steps, drops the worse half, and goes on with the rest. It ranks them by
# how well two views of an image agree, so it never reads a label.

# %%
command = """
kvicreg select --data digits --image-size 16 --candidates rbf linear laplacian rbf+linear --budget 120steps
    --epochs 8 --batch-size 128 --width 0.5 --projector-hidden 128 --projector-outputs 128 --no-full --out choice
"""
main(command.split()[1:])

# %%
choice = json.loads(Path("choice/selection.json").read_text())
print(choice["criterion"])
for row in choice["ranking"]:
    print(f"{row['candidate']:12} {row['steps']:4} steps  {row['criteria'][choice['criterion']]:.3f}")
