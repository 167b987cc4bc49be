# %% [markdown]
# # What a spectrum tells: a collapse as it happens
#
# The covariance operator of a batch has a spectrum: the variances along its principal directions in feature space.
# When an encoder gives up and maps everything to one point, the spectrum shows it.

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn

from kvicreg import KernelVICRegLoss, operators

torch.manual_seed(0)
basis = torch.randn(8, 64)  # samples live on 8 dimensions of 64
fixed = torch.randn(256, 8) @ basis


def train(steps: int = 120, **weights: float) -> tuple[list[float], list[torch.Tensor]]:
    """The effective rank at each step, and the spectrum at some."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    criterion = KernelVICRegLoss(kernel="linear", **weights)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=5e-3)
    ranks, spectra = [], []
    for step in range(steps):
        batch = torch.randn(256, 8) @ basis
        loss = criterion(*(encoder(batch + torch.randn_like(batch)) for _ in range(2)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            operator = operators.covariance_operator(encoder(fixed), criterion.kernel)
            ranks.append(float(operator.effective_rank()))
            if step % 12 == 0:
                spectra.append(operator.eigenvalues())
    return ranks, spectra


# %% [markdown]
# Once with all three terms, and once with the invariance alone, which few directions satisfy best. With the linear
# kernel the operator is the ordinary covariance matrix.

# %%
runs = {"all three terms": train(), "invariance alone": train(variance_weight=0.0, covariance_weight=0.0)}
figure, (left, *right) = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
for name, (ranks, _) in runs.items():
    left.plot(ranks, label=name)
    print(f"{name}: effective rank {ranks[0]:.1f} at first, {ranks[-1]:.1f} at last")
left.set_xlabel("step")
left.set_ylabel("effective rank")
left.legend()
for axis, (name, (_, spectra)) in zip(right, runs.items(), strict=True):
    for i, values in enumerate(spectra):
        axis.semilogy(values[:60].clamp_min(1e-6), color=plt.cm.viridis(i / len(spectra)))
    axis.set_title(f"{name}: dark is early", fontsize=9)
    axis.set_xlabel("direction")
    axis.set_ylim(1e-4, 100)

# %% [markdown]
# Every run of `kvicreg train` records this (`spectrum.npz`, `effective_rank` in `metrics.csv`) and warns of a collapse;
# the report has a slider over the epochs.
