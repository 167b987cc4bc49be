"""Run by torchrun: trains a small network by DDP and by FSDP; the first process prints how far their weights differ."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from kvicreg import KernelVICRegLoss, VICRegLoss


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).double()


def trained(wrap, criterion: nn.Module, views: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    whole = network()
    model = wrap(whole)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = criterion(*(model(view) for view in views))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = whole.state_dict()
    return {name: getattr(value, "full_tensor", lambda value=value: value)() for name, value in state.items()}


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(1)
x = torch.randn(dist.get_world_size(), 6, 8, dtype=torch.float64)[dist.get_rank()]
views, worst = [x, x + 0.1 * x.sin()], 0.0
for criterion in (KernelVICRegLoss("rbf"), KernelVICRegLoss("laplacian"), VICRegLoss()):
    one = trained(DistributedDataParallel, criterion, views)
    other = trained(lambda model: fully_shard(model, mesh=mesh), criterion, views)
    start = network().state_dict()
    moved = max((one[name] - start[name]).abs().max().item() for name in one)
    assert moved > 1e-4, "nothing was trained"
    worst = max(worst, *((one[name] - other[name]).abs().max().item() for name in one))
if dist.get_rank() == 0:
    print(f"worst {worst}")
sys.stdout.flush()
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # threads of gloo that are still there abort a process that ends by itself, now and then
