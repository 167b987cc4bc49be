# %% [markdown]
# # From a folder of photographs to search
#
# Any folder will do. So that this page runs anywhere, ours is cut from the two photographs inside scikit-learn
# (by Zheng Qiang and dany13, CC BY).

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from kvicreg.cli import main

rng = np.random.default_rng(0)
for name, picture in zip(("temple", "flower"), load_sample_images().images, strict=True):
    folder = Path("photos") / name
    folder.mkdir(parents=True)
    for i in range(200):
        y, x = rng.integers(0, 427 - 96), rng.integers(0, 640 - 96)
        Image.fromarray(picture[y : y + 96, x : x + 96]).save(folder / f"{i:03}.jpg", quality=90)
print(len(list(Path("photos").rglob("*.jpg"))), "photographs")

# %% [markdown]
# Train, then embed the same folder; both lines are what one would type into a terminal.


# %%
def terminal(line: str) -> None:
    main(line.split()[1:])


terminal("kvicreg train --data photos --image-size 32 --epochs 10 --batch-size 100 --width 0.5 --out run")
terminal("kvicreg embed run photos --out embeddings.npz")

# %% [markdown]
# Search: the photographs whose features point the same way as those of a query.

# %%
table = np.load("embeddings.npz")
print({name: table[name].shape for name in table.files})
features = table["embeddings"] - table["embeddings"].mean(0)
features /= np.linalg.norm(features, axis=1, keepdims=True)

figure, axes = plt.subplots(4, 7, figsize=(8, 4.8))
for row, query in zip(axes, (3, 57, 230, 388), strict=True):
    nearest = np.argsort(-features @ features[query])[:7]
    for axis, i in zip(row, nearest, strict=True):
        axis.imshow(Image.open(table["paths"][i]))
        axis.axis("off")
    row[0].set_title("query", fontsize=8)
