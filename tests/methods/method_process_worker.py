"""Run by torchrun: trains every method on this process's part of the batches; the first process saves the states."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
import torch.distributed as dist
from small_methods import NAMES, STEPS, advance, build, optimizer_of

from kvicreg import losses, operators

NYSTROM, FOURIER = operators.Nystrom(landmarks=6), operators.RandomFourier(features=8)
LOSSES = {
    "barlow twins": losses.BarlowTwinsLoss(0.1),
    "kernel barlow twins, linear": losses.KernelBarlowTwinsLoss("linear"),
    "kernel barlow twins, rq": losses.KernelBarlowTwinsLoss("rq"),
    "kernel barlow twins, nystrom": losses.KernelBarlowTwinsLoss("rbf", approximation=NYSTROM),
    "kernel barlow twins, fourier": losses.KernelBarlowTwinsLoss("rbf", approximation=FOURIER),
    "kernel barlow twins, coordinates": losses.KernelBarlowTwinsLoss("rbf", "coordinates", approximation=FOURIER),
    "kernel simclr, laplacian": losses.KernelSimCLRLoss("laplacian"),
    "kernel simclr, nystrom": losses.KernelSimCLRLoss("rbf", approximation=NYSTROM),
    "kernel simclr, fourier": losses.KernelSimCLRLoss("rbf", approximation=FOURIER),
    "ssl-hsic": losses.SSLHSICLoss(),
    "ssl-hsic, fourier": losses.SSLHSICLoss(approximation=FOURIER),
    "nt-xent": losses.NTXentLoss(),
    "frossl": losses.FroSSLLoss(),
    "frossl, rbf": losses.FroSSLLoss("rbf"),
    "i-vne": losses.VNELoss(),
    "i-vne, polynomial": losses.VNELoss("polynomial"),
    "coding rate": losses.CodingRateLoss(),
    "corinfomax": losses.CorInfoMaxLoss(eps=1e-3),
    "corinfomax, fourier": losses.CorInfoMaxLoss("rbf", FOURIER, eps=1e-3),
    "mmcr": losses.MMCRLoss(),
    "mmcr, laplacian": losses.MMCRLoss("laplacian"),
    "lejepa": losses.LeJEPALoss(slices=8),
    "visreg": losses.VISRegLoss(slices=8),
    "kerjepa, mmd": losses.KerJEPALoss("mmd"),
    "kerjepa, stein": losses.KerJEPALoss("stein", exponent=0.5),
    "w-mse": losses.WMSELoss(),
    "kernel byol, rbf": losses.KernelBYOLLoss("rbf"),
    "kernel byol, nystrom": losses.KernelBYOLLoss("rbf", approximation=NYSTROM),
}


def uneven_gradient(loss: torch.nn.Module, width: int, *, shared: bool) -> torch.Tensor:
    """Gradient of a shared linear network over 15 rows: by one process, or the mean over processes in uneven parts."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 15, 5, generator=generator, dtype=torch.float64)
    weight = torch.randn(5, width, generator=generator, dtype=torch.float64).requires_grad_()
    if shared:
        x = x[:, :9] if dist.get_rank() == 0 else x[:, 9:]
    loss.eval().gather = shared  # a step of training would draw other slices
    views = x[: 4 if "BYOL" in type(loss).__name__ else 2] @ weight
    (gradient,) = torch.autograd.grad(loss(*views), weight)
    if shared:
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()
    return gradient


if __name__ == "__main__":
    dist.init_process_group("gloo")
    states = {}
    for name in NAMES:
        method = build(name)
        wrapped = torch.nn.parallel.DistributedDataParallel(method)
        place = {"rank": dist.get_rank(), "world": dist.get_world_size()}
        advance(method, optimizer_of(method), range(STEPS), through=wrapped, **place)
        states[name] = method.state_dict()
        mine = torch.cat([v.double().flatten() for v in method.state_dict().values()])
        first = mine.clone()
        dist.broadcast(first, 0)
        assert first.equal(mine), f"{name}: the processes differ"
    gradients = {
        f"{name}, width {width}": [uneven_gradient(loss, width, shared=shared) for shared in (True, False)]
        for name, loss in LOSSES.items()
        for width in (4, 20)
        if (name, width) != ("w-mse", 20)  # it needs more rows than columns
    }
    if dist.get_rank() == 0:
        torch.save({"states": states, "gradients": gradients}, sys.argv[1])
    dist.barrier()
    os._exit(0)  # tearing gloo's threads down aborts a process now and then, after all is done
