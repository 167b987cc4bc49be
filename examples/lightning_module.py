"""KernelVICRegLoss in a LightningModule of your own; `kvicreg.training.SelfSupervised` is the ready-made one.

python examples/lightning_module.py
"""

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from kvicreg import KernelVICRegLoss, kernels
from kvicreg.data import Views, load
from kvicreg.models import Projector, SmallCNN


class MyModule(pl.LightningModule):
    def __init__(self, encoder: nn.Module, views: Views) -> None:
        super().__init__()
        self.encoder, self.views = encoder, views
        self.projector = Projector(encoder.feature_dim, hidden=256, outputs=256)  # type: ignore[arg-type]
        # under DDP the loss is that of the global batch, and its gradients are right after DDP's averaging
        self.criterion = KernelVICRegLoss(kernel=0.5 * kernels.RBF() + 0.5 * kernels.Laplacian())

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        images, samples = batch
        z1, z2 = (
            self.projector(self.encoder(self.views(images, samples, seed=0, epoch=self.current_epoch, view=view)))
            for view in (0, 1)
        )
        terms = self.criterion.step(z1, z2)
        self.log_dict({"invariance": terms.invariance, "variance": terms.variance, "covariance": terms.covariance})
        return terms.total

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(steps: int = 20) -> float:
    pl.seed_everything(0, verbose=False)
    data = load("mnist-small")  # embedded in the package: no download
    pairs = [(data.fetch(torch.tensor([i]))[0], i) for i in range(512)]
    module = MyModule(SmallCNN(in_channels=1, width=0.5), Views.of(data))
    trainer = pl.Trainer(
        max_steps=steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, DataLoader(pairs, batch_size=128, shuffle=True, drop_last=True))  # type: ignore[arg-type]
    print({name: round(float(value), 4) for name, value in trainer.callback_metrics.items()})
    return float(trainer.callback_metrics["variance"])


if __name__ == "__main__":
    main()
