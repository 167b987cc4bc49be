"""The LightningModule: any method on any images, with data and views by address."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from kvicreg.data import ImageData, Views, batches, count_batches
from kvicreg.data.addresses import key
from kvicreg.methods import Method
from kvicreg.methods.target import Target
from kvicreg.models.blocks import frozen_blocks
from kvicreg.operators.eigenvalues import count_repeated
from kvicreg.runs import Settings
from kvicreg.runs.encoder import describe_encoder
from kvicreg.training.build import learning_rates
from kvicreg.training.schedule import learning_rate


class SelfSupervised(pl.LightningModule):
    """Trains a method; what it needs of the settings is the optimizer, the schedule, the batch size and the seed.

    Args:
        method: encoder, projector and loss.
        settings: the defaults of `Settings` when left out.
        data: images to draw batches from. Leave it out to bring a loader of your own to `trainer.fit(module, loader)`,
            whose batches are the views: a tuple of float tensors (b, c, h, w).
        views: the random views; by default those that fit the data.
        groups: a whole number for each image of the data, for the group-fair terms of Kernel VICReg.

    Example:
        >>> encoder = SmallCNN(in_channels=1, width=0.25)  # or any module with `.feature_dim`
        >>> method = KernelVICReg(encoder, Projector(encoder.feature_dim, 32, 16))
        >>> images = torch.randint(0, 256, (96, 1, 16, 16), dtype=torch.uint8)
        >>> module = SelfSupervised(method, Settings.of(batch_size=32), data=ArrayData(images))
        >>> import lightning.pytorch as pl
        >>> pl.Trainer(max_epochs=1, barebones=True).fit(module)
        >>> module.batches_done
        3
    """

    def __init__(
        self,
        method: Method,
        settings: Settings | None = None,
        *,
        data: ImageData | None = None,
        views: Views | None = None,
        groups: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.method, self.settings = method, settings or Settings()
        self.data = data
        self.views = Views.of(data) if views is None and data is not None else views
        self.groups: Tensor | None
        self.register_buffer("groups", groups, persistent=False)
        self.repeated_decompositions = 0  # because the first eigensolver gave up
        self.batches_done = 0  # since the start of training: with the settings, the whole address of the next batch
        self.average = None if self.settings.model.ema is None else Target(method.encoder, method.projector)
        self.form = torch.channels_last if self._suits_channels_last() else torch.preserve_format
        if self.form is torch.channels_last:
            self.method.encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.settings.engine.compile:
            self.method.encoder.compile()
            self.method.projector.compile()
        self.train()

    # ---- one step

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        torch.manual_seed(
            key(self.settings.engine.seed, self.batches_done) >> 1
        )  # whatever is drawn has an address too
        views = batch if self.data is None else self.views_of(batch[0], batch[1])
        views = [view.to(self.dtype, memory_format=self.form) for view in views]
        labels = None if self.data is None else batch[2]
        groups = {} if self.groups is None else {"groups": self.groups[batch[1]]}
        with count_repeated() as count:
            result = self.method(views, self.global_step, labels, **groups)
        self.repeated_decompositions += count.repeated
        self.batches_done += 1
        terms = {"loss": result.loss.detach(), **result.terms}  # Lightning divides "loss" when it accumulates
        return {"loss": result.loss, "terms": terms, "embeddings": result.embeddings}

    def views_of(self, images: Tensor, samples: Tensor) -> Sequence[Tensor]:
        """The views of each image, and its smaller crops, at half the side, as many as the method sees."""
        assert self.views is not None
        epoch = self.batches_done // self.batches_per_epoch
        address = {"seed": self.settings.engine.seed, "epoch": epoch}
        seen = self.settings.method.views_seen
        whole = [self.views(images, samples, view=v, **address) for v in range(seen.views_per_image)]
        if not seen.local_crops:
            return whole
        largest = seen.local_crop_area
        crops = replace(self.views.config, crop_area=min(0.05, largest), crop_area_max=largest)
        small = Views(crops, size=self.views.size // 2, mean=self.views.mean, std=self.views.std)
        return whole + [small(images, samples, view=v, **address) for v in range(seen.views_per_image, seen.count)]

    def _suits_channels_last(self) -> bool:
        """With widths that are no multiple of 8, torch's backward pass with channels last can crash on a CPU.

        A transformer, with its one convolution of patches, gains nothing.
        """
        convolutions = [m for m in self.method.encoder.modules() if isinstance(m, nn.Conv2d)]
        fits = len(convolutions) > 1 and all(m.out_channels % 8 == 0 for m in convolutions)
        return self.settings.engine.channels_last and fits

    def train(self, mode: bool = True) -> Self:
        """Training mode, in which frozen blocks and frozen statistics stay as they are."""
        super().train(mode)
        if self.settings.model.freeze_statistics:
            for module in self.method.encoder.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        for block in frozen_blocks(self.method.encoder, self.settings.model.freeze):
            if block.module is not None:
                block.module.eval()
        return self

    # ---- optimisation

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.settings.optimizer.build(self.method, learning_rates(self.method, self.settings))

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        for optimizer in self.trainer.optimizers:
            for group in optimizer.param_groups:
                share = self.encoder_share() if group.get("waits") else 1.0
                group["lr"] = self.current_learning_rate() * group.get("rate", 1.0) * share

    def current_learning_rate(self) -> float:
        """The learning rate of the step at hand."""
        schedule = self.settings.schedule
        per_epoch = -(-self.trainer.num_training_batches // schedule.accumulate)
        return learning_rate(
            self.global_step,
            total=schedule.total_epochs * int(per_epoch),
            warmup=schedule.warmup_epochs * per_epoch,
            peak=self.settings.optimizer.learning_rate,
            final=schedule.final_learning_rate,
        )

    def encoder_share(self) -> float:
        """The part of the learning rate that the encoder has while the projector is ahead: 0, then linearly to 1."""
        schedule = self.settings.schedule
        per_epoch = -(-self.trainer.num_training_batches // schedule.accumulate)
        behind = self.global_step - schedule.projector_epochs * per_epoch
        return min(1.0, max(0.0, (behind + 1) / (schedule.warmup_epochs * per_epoch + 1))) if behind >= 0 else 0.0

    def optimizer_step(
        self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Callable[[], Any] | None = None
    ) -> None:
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        self.method.after_step(self.global_step, int(self.trainer.estimated_stepping_batches))
        if self.average is not None:
            assert self.settings.model.ema is not None
            momentum = min(self.settings.model.ema, (1 + self.global_step) / (10 + self.global_step))  # quick at first
            self.average.follow(self.method.encoder, self.method.projector, momentum=momentum, buffers=True)

    @property
    def encoder(self) -> nn.Module:
        """What training leaves: the encoder, or the moving average of its weights."""
        return self.method.encoder if self.average is None else self.average.copies[0]

    @property
    def projector(self) -> nn.Module:
        """What training leaves beside it."""
        return self.method.projector if self.average is None else self.average.copies[1]

    # ---- data by address

    @property
    def batch_size(self) -> int:
        """Images per batch, over all processes."""
        assert self.data is not None
        return self.settings.schedule.batch_size_for(len(self.data))

    @property
    def batches_per_epoch(self) -> int:
        assert self.data is not None
        return count_batches(len(self.data), self.batch_size)

    def train_dataloader(self) -> Any:
        if self.data is None:
            raise ValueError("SelfSupervised has no data: pass data=, or a loader to trainer.fit(module, loader)")
        return _Batches(self)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["batches_done"] = self.batches_done
        if self.data is not None and self.views is not None:  # so that commands can use its weights
            checkpoint["encoder"] = describe_encoder(
                self.method.encoder, self.data.shape[1], self.views.mean, self.views.std, self.data.name,
                self.method.projector, None if self.data.intensity is None else self.data.intensity.text, self.data.fit,
            )  # fmt: skip

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.batches_done = checkpoint["batches_done"]


class _Batches:
    """The rest of the current epoch: which batches those are follows from how many have been done."""

    def __init__(self, module: SelfSupervised) -> None:
        self.module = module

    def __len__(self) -> int:
        return self.module.batches_per_epoch

    def __iter__(self) -> Iterator[Any]:
        module, settings = self.module, self.module.settings
        assert module.data is not None
        epoch, start = divmod(module.batches_done, len(self))
        return batches(
            module.data,
            module.batch_size,
            seed=settings.engine.seed,
            epoch=epoch,
            start=start,
            rank=module.trainer.global_rank,
            world_size=module.trainer.world_size,
            workers=settings.data.workers or 0,
        )

    # Lightning asks a loader that can be resumed for its state; ours has none beside `batches_done`
    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
