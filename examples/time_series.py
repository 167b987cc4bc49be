"""Data that is not images: series with unknown waveforms, encoded without labels, then read by a linear probe.

Each series is a noisy sine, square, triangle or sawtooth of its own period. Its two views are random windows of it,
rescaled, with noise added: where a window begins, how loud and how noisy it is should not matter.

python examples/time_series.py
"""

import torch
from torch import Tensor, nn

from kvicreg import KernelVICRegLoss

LENGTH, WINDOW = 160, 96


def make_series(count: int) -> tuple[Tensor, Tensor]:
    """Series (count, LENGTH) and their waveforms (count,), which only the probe will see."""
    kinds = torch.arange(count) % 4
    turn = (torch.arange(LENGTH) / (12 + 12 * torch.rand(count, 1)) + torch.rand(count, 1)) % 1
    sine, square = torch.sin(6.2832 * turn), torch.sign(turn - 0.5)
    triangle, saw = 4 * (turn - 0.5).abs() - 1, 2 * turn - 1
    return torch.stack([sine, square, triangle, saw])[kinds, torch.arange(count)], kinds


def view(series: Tensor) -> Tensor:
    """One random view (b, 1, WINDOW) of each series (b, LENGTH)."""
    starts = torch.randint(0, LENGTH - WINDOW + 1, (len(series), 1))
    windows = series.gather(1, starts + torch.arange(WINDOW))
    return ((0.5 + torch.rand(len(series), 1)) * windows + 0.3 * torch.randn(len(series), WINDOW))[:, None]


def build_encoder() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(1, 32, 9, 2, 4), nn.BatchNorm1d(32), nn.ReLU(),
        nn.Conv1d(32, 64, 9, 2, 4), nn.BatchNorm1d(64), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(),
    )  # fmt: skip


def probe(encoder: nn.Module, series: Tensor, kinds: Tensor, labelled: int = 100) -> float:
    """Accuracy of least squares on frozen features: the first `labelled` series fit it, the others score it."""
    encoder.eval()
    with torch.no_grad():
        x = encoder(view(series))
    x = torch.cat([(x - x.mean(0)) / (x.std(0) + 1e-6), torch.ones(len(x), 1)], 1)
    y = nn.functional.one_hot(kinds).float()
    a, b = x[:labelled], y[:labelled]
    w = torch.linalg.solve(a.T @ a + torch.eye(x.shape[1]), a.T @ b)
    return float(((x[labelled:] @ w).argmax(1) == kinds[labelled:]).float().mean())


def main(steps: int = 150) -> tuple[float, float]:
    torch.manual_seed(0)
    unlabelled, _ = make_series(2000)
    held_out = make_series(1000)
    encoder, projector = build_encoder(), nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    before = probe(encoder, *held_out)
    encoder.train()
    criterion = KernelVICRegLoss(kernel="rq")
    optimizer = torch.optim.Adam([*encoder.parameters(), *projector.parameters()], lr=2e-3)
    for _ in range(steps):
        batch = unlabelled[torch.randint(0, len(unlabelled), (128,))]
        loss = criterion(projector(encoder(view(batch))), projector(encoder(view(batch))))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    after = probe(encoder, *held_out)
    print(f"waveform told with 100 labels: untrained encoder {before:.1%}, Kernel VICReg {after:.1%}")
    return before, after


if __name__ == "__main__":
    main()
