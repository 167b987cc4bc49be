# %% [markdown]
# # The loss in a loop of your own
#
# An encoder learns from digits without their labels; a nearest-neighbour vote says what it has learnt.

# %%
import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from kvicreg import KernelVICRegLoss
from kvicreg.data import load
from kvicreg.evaluation import knn

torch.manual_seed(0)
train, test = load("mnist-small"), load("mnist-small", "test")  # inside the package: no download
images = train.fetch(torch.arange(4000)).float() / 255
print(tuple(images.shape))

# %% [markdown]
# Two random views of a digit: turned, stretched and shifted. What differs between them is what the encoder will ignore.


# %%
def view(batch: Tensor) -> Tensor:
    turn, size = 0.4 * torch.randn(len(batch)), 1 + 0.2 * torch.rand(len(batch))
    rows = [torch.stack([size * turn.cos(), -turn.sin()], 1), torch.stack([turn.sin(), size * turn.cos()], 1)]
    maps = torch.cat([torch.stack(rows, 1), 0.15 * torch.randn(len(batch), 2, 1)], 2)
    grid = nn.functional.affine_grid(maps, list(batch.shape), align_corners=False)
    return nn.functional.grid_sample(batch, grid, align_corners=False)


figure, axes = plt.subplots(2, 8, figsize=(8, 2))
for row in axes:
    for axis, image in zip(row, view(images[:8]), strict=True):
        axis.imshow(image[0], cmap="gray")
        axis.axis("off")

# %% [markdown]
# The loop is an ordinary one. The projector is seen by the loss alone, and put aside afterwards.

# %%
encoder = nn.Sequential(
    nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
    nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
    nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
    nn.AdaptiveAvgPool2d(2), nn.Flatten(),
)  # fmt: skip
projector = nn.Sequential(nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 256))
criterion = KernelVICRegLoss(kernel="rbf")
optimizer = torch.optim.Adam([*encoder.parameters(), *projector.parameters()], lr=2e-3)


def vote() -> float:
    """Accuracy of the 20 nearest training images' vote, by the encoder's features."""
    encoder.eval()
    with torch.no_grad():
        x, y = encoder(images), encoder(test.fetch(torch.arange(1000)).float() / 255)
    encoder.train()
    return knn(x, train.labels[:4000], y, test.labels[:1000]).accuracy


before = vote()
rows = []
for _ in range(120):
    batch = images[torch.randint(0, len(images), (256,))]
    terms = criterion.step(projector(encoder(view(batch))), projector(encoder(view(batch))))
    optimizer.zero_grad()
    terms.total.backward()
    optimizer.step()
    rows.append([term.item() for term in terms])
print(f"20-NN: untrained {before:.1%}, trained {vote():.1%}")

# %%
figure, axis = plt.subplots(figsize=(7, 3))
for name, values in zip(terms._fields, zip(*rows, strict=True), strict=True):
    axis.plot(values, label=name)
axis.set_xlabel("step")
axis.legend()
