"""Run by torchrun: trains every method on this process's part of the batches; the first process saves the states."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
import torch.distributed as dist
from small import STEPS, advance, build, optimizer_of

from kvicreg.methods import METHODS

if __name__ == "__main__":
    dist.init_process_group("gloo")
    states = {}
    for name in METHODS:
        method = build(name)
        wrapped = torch.nn.parallel.DistributedDataParallel(method)
        place = {"rank": dist.get_rank(), "world": dist.get_world_size()}
        advance(method, optimizer_of(method), range(STEPS), through=wrapped, **place)
        states[name] = method.state_dict()
        mine = torch.cat([v.double().flatten() for v in method.state_dict().values()])
        first = mine.clone()
        dist.broadcast(first, 0)
        assert first.equal(mine), f"{name}: the processes differ"
    if dist.get_rank() == 0:
        torch.save(states, sys.argv[1])
    dist.destroy_process_group()
