"""KernelVICRegLoss in a plain PyTorch loop: the loss is a drop-in criterion on two batches of embeddings.

python examples/plain_pytorch.py
"""

import torch
from torch import nn

from kvicreg import KernelVICRegLoss


def two_views(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Your augmentation goes here; this one adds noise and drops a tenth of the coordinates."""
    return tuple((x + 0.1 * torch.randn_like(x)) * (torch.rand_like(x) > 0.1) for _ in range(2))  # type: ignore[return-value]


def main(steps: int = 100) -> float:
    torch.manual_seed(0)
    basis = torch.randn(8, 64)  # data on an 8-dimensional subspace of 64 dimensions

    encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
    projector = nn.Sequential(nn.Linear(32, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 128))
    criterion = KernelVICRegLoss(kernel="laplacian")
    optimizer = torch.optim.Adam([*encoder.parameters(), *projector.parameters()], lr=1e-3)

    for step in range(steps):
        batch = torch.randn(256, 8) @ basis
        z1, z2 = (projector(encoder(view)) for view in two_views(batch))
        terms = criterion.step(z1, z2)  # or criterion(z1, z2) for the scalar alone
        optimizer.zero_grad()
        terms.total.backward()
        optimizer.step()
        if step % 20 == 0 or step == steps - 1:
            print(step, " ".join(f"{name} {value.item():.4f}" for name, value in terms._asdict().items()))
    return terms.total.item()


if __name__ == "__main__":
    main()
