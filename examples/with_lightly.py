"""KernelVICRegLoss beside lightly: its transform and its projection head, our loss in place of its VICRegLoss.

pip install lightly && python examples/with_lightly.py
Beside a CPU build of torch, install torchvision from the same index as torch: the one on PyPI is compiled for CUDA.
"""

import torch
from torch import nn

from kvicreg import KernelVICRegLoss
from kvicreg.models import ResNet18


def main(steps: int = 3) -> float:
    from lightly.models.modules.heads import VICRegProjectionHead
    from lightly.transforms.vicreg_transform import VICRegTransform
    from PIL import Image

    torch.manual_seed(0)
    transform = VICRegTransform(input_size=32)
    noise = torch.randint(0, 256, (32, 32, 32, 3), dtype=torch.uint8)
    pictures = [Image.fromarray(image.numpy()) for image in noise]

    backbone = ResNet18(width=0.25, stem="small")
    model = nn.Sequential(backbone, VICRegProjectionHead(backbone.feature_dim, 256, 256))
    criterion = KernelVICRegLoss(kernel="laplacian")  # was: lightly.loss.VICRegLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        views = zip(*(transform(picture) for picture in pictures), strict=True)
        z1, z2 = (model(torch.stack(view)) for view in views)
        loss = criterion(z1, z2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, f"{loss.item():.4f}")
    return loss.item()


if __name__ == "__main__":
    main()
