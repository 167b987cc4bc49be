"""One of several processes that hold a global batch in uneven parts; run by test_global_batch.py under torchrun.

For every kernel x approximation x parametrization it compares the loss, and the mean over the processes of the
gradients of a shared linear network (what DDP leaves), with those of one process that holds the whole batch. Process 0
prints the largest relative differences as JSON.
"""

import json
import os

import torch
import torch.distributed as dist

from kvicreg import KernelVICRegLoss, VICRegLoss, kernels, operators

ROWS, INPUTS, WIDTH = 23, 5, 8
KERNELS = {
    "linear": lambda: kernels.Linear(),
    "polynomial": lambda: kernels.Polynomial(),
    "rbf": lambda: kernels.RBF(),
    "laplacian": lambda: kernels.Laplacian(),
    "laplacian-l1": lambda: kernels.Laplacian(norm=1),
    "rq": lambda: kernels.RationalQuadratic(),
    "smoothed": lambda: kernels.RBF(gamma="smoothed"),
    "mixture": lambda: kernels.Mixture([kernels.RBF(), kernels.Laplacian()], [0.3, 0.7], learnable=True),
    "product": lambda: kernels.RBF() * kernels.RationalQuadratic(),
}
APPROXIMATIONS = {
    "exact": lambda: None,
    "nystrom": lambda: operators.Nystrom(landmarks=10),
    "nystrom-kmeans++": lambda: operators.Nystrom(landmarks=5, choice="kmeans++"),
    "nystrom-leverage": lambda: operators.Nystrom(landmarks=5, choice="leverage"),
    "nystrom-wide": lambda: operators.Nystrom(landmarks=40),
    "rff": lambda: operators.RandomFourier(features=12),
    "rff-cosine-redrawn": lambda: operators.RandomFourier(features=14, form="cosine", redraw=True),
    "rff-wide": lambda: operators.RandomFourier(features=64, orthogonal=True),
}
NO_FOURIER = ("linear", "polynomial")
NOT_ROTATION_INVARIANT = ("laplacian-l1",)


def cases():
    for kernel, make_kernel in KERNELS.items():
        for name, approximation in APPROXIMATIONS.items():
            if name.startswith("rff") and kernel in NO_FOURIER:
                continue
            if name == "rff-wide" and kernel in NOT_ROTATION_INVARIANT:
                continue
            for form in ("scaled", "paper"):
                for diagonal in (False, True) if name == "exact" else (False,):
                    label = f"{kernel} {name} {form} diagonal={diagonal}"
                    yield (
                        label,
                        (
                            lambda k=make_kernel, a=approximation, f=form, d=diagonal, **kw: KernelVICRegLoss(
                                k(), f, covariance_weight=0.5, approximation=a(), include_diagonal=d, **kw
                            )
                        ),
                    )
    for kernel in ("linear", "rbf", "polynomial"):
        for name in ("exact", "nystrom"):
            make_kernel, approximation = KERNELS[kernel], APPROXIMATIONS[name]
            yield (
                f"{kernel} {name} shared spectrum",
                lambda k=make_kernel, a=approximation, **kw: KernelVICRegLoss(
                    k(), approximation=a(), spectrum="shared", **kw
                ),
            )
    for kernel in ("linear", "rbf", "mixture"):
        for name in ("exact", "nystrom", "rff"):
            for own in (False, True):
                if name == "exact" or kernel == "rbf":
                    yield (
                        f"groups {kernel} {name} own={own}",
                        lambda k=kernel, a=name, o=own, **kw: KernelVICRegLoss(
                            KERNELS[k](),
                            covariance_weight=0.5,
                            approximation=APPROXIMATIONS[a](),
                            group_bandwidth=o,
                            **kw,
                        ),
                    )
    for convention in ("official", "paper", "solo-learn"):
        yield f"vicreg {convention}", lambda c=convention, **kw: VICRegLoss(c, **kw)


def gradients(criterion, network, rows, groups=None):
    """Loss and gradients of the network and of the criterion's own parameters, views 1 and 2 being these rows."""
    parameters = [network, *criterion.parameters()]
    for parameter in parameters:
        parameter.grad = None
    known = {} if groups is None else {"groups": groups[rows]}
    loss = criterion(*(torch.tanh(view[rows] @ network) for view in VIEWS), **known)
    loss.backward()
    return loss.detach(), [parameter.grad for parameter in parameters]


def relative(a, b):
    return float((a - b).norm() / b.norm().clamp_min(1e-12))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    base = torch.randn(ROWS, INPUTS)
    VIEWS = [base + 0.3 * torch.randn(ROWS, INPUTS) for _ in range(3 if os.environ.get("THREE_VIEWS") else 2)]
    # one group in a single process, one with members in all of them, one with a single member, which does not count
    GROUPS = torch.tensor([7] * 5 + [2, 3] * ((ROWS - 6) // 2) + [9] * (1 + (ROWS - 6) % 2))
    network = torch.randn(INPUTS, WIDTH, requires_grad=True)
    cuts = [0, *(ROWS * i // world - i for i in range(1, world)), ROWS]  # uneven parts
    mine = slice(cuts[rank], cuts[rank + 1])

    gathered = []
    all_gather = dist.all_gather
    dist.all_gather = lambda parts, tensor, *a, **k: (
        gathered.append(tensor.numel()),
        all_gather(parts, tensor, *a, **k),
    )

    worst, most_gathered = {}, {}
    for label, make in cases():
        groups = GROUPS if label.startswith("groups") else None
        expected_loss, expected = gradients(make(gather=False), network, slice(None), groups)
        gathered.clear()
        loss, shared = gradients(make(), network, mine, groups)
        most_gathered[label] = max(gathered)
        for gradient in shared:
            dist.all_reduce(gradient)
            gradient /= world
        worst[label] = max(relative(loss, expected_loss), *map(relative, shared, expected))

    local = KernelVICRegLoss("rbf", gather=False)
    own, _ = gradients(local, network, mine)
    losses = [torch.empty_like(own) for _ in range(world)]
    all_gather(losses, own)
    if rank == 0:
        print(json.dumps({"worst": worst, "gathered": most_gathered, "local": [float(x) for x in losses]}), flush=True)
    dist.barrier()
    os._exit(0)  # tearing gloo's threads down aborts a process now and then, after all is done
