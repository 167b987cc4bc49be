"""Two hosts train as one process does; when one of them dies the other says so, and the run goes on alone.

The hosts are two network namespaces with a cable between them: each has its own loopback and address, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from kvicreg.cli import main

SETTINGS = [
    "--data=mnist-small", "--epochs=1", "--batch-size=64", "--width=0.25", "--norm=group", "--projector-hidden=32",
    "--projector-outputs=32", "--spectrum-images=32", "--probe-images=0", "--accelerator=cpu", "--precision=64-true",
    "--warmup-epochs=0",
]  # fmt: skip
PORT = 29_517


class Host:
    """A network namespace: `start` runs a process in it, under torchrun."""

    def __init__(self, rank: int) -> None:
        self.rank, self.name, self.link = rank, f"kvicreg{os.getpid()}-{rank}", f"kv{os.getpid() % 10**6}-{rank}"

    def start(self, *flags: str, log: Path) -> subprocess.Popen[bytes]:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={self.rank}"]
        torchrun += ["--nproc-per-node=1", "--master-addr=10.77.0.1", f"--master-port={PORT}", "-m", "kvicreg", "train"]
        return subprocess.Popen(
            ["ip", "netns", "exec", self.name, *torchrun, *SETTINGS, "--nodes=2", *flags],
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
            env=os.environ | {"GLOO_SOCKET_IFNAME": self.link, "OMP_NUM_THREADS": "1"},
        )

    def kill(self) -> None:
        """Kill every process in the namespace, as when a machine loses power."""
        pids = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True).stdout.split()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[Host]]:
    pair = [Host(0), Host(1)]
    commands = [f"ip netns add {host.name}" for host in pair]
    commands.append(
        f"ip link add {pair[0].link} netns {pair[0].name} type veth peer {pair[1].link} netns {pair[1].name}"
    )
    for host in pair:
        commands.append(f"ip -n {host.name} address add 10.77.0.{host.rank + 1}/24 dev {host.link}")
        commands += [f"ip -n {host.name} link set {link} up" for link in (host.link, "lo")]
    try:
        for command in commands:
            try:
                ran = subprocess.run(command.split(), capture_output=True, text=True)
            except FileNotFoundError:
                pytest.skip("two hosts need network namespaces, and there is no command ip (iproute2)")
            if ran.returncode:
                pytest.skip(f"two hosts need network namespaces, as root on Linux: {command}: {ran.stderr.strip()}")
        yield pair
    finally:
        for host in pair:
            subprocess.run(["ip", "netns", "delete", host.name], capture_output=True, check=False)


def assert_same_weights(one: Path, two: Path) -> None:
    for name in ("encoder.safetensors", "projector.safetensors"):
        expected, shared = load_file(one / name), load_file(two / name)
        for key, value in expected.items():
            assert (value - shared[key]).abs().max() < 1e-5, f"{name}: {key}"


@pytest.mark.slow
def test_two_hosts_end_in_the_weights_of_one_process(tmp_path, hosts):
    alone = tmp_path / "alone"
    assert main(["train", *SETTINGS, "--max-steps=8", f"--out={alone}"]) == 0
    run, logs = tmp_path / "run", [tmp_path / "0.log", tmp_path / "1.log"]
    flags = ["--max-steps=8", f"--out={run}"]
    started = [host.start(*flags, log=log) for host, log in zip(hosts, logs, strict=True)]
    assert [process.wait(300) for process in started] == [0, 0], logs[0].read_text() + logs[1].read_text()
    assert_same_weights(alone, run)
    assert logs[0].read_text().count("Run folder") == 1
    assert "kvicreg" not in logs[1].read_text(), "the second host leaves the talking to the first"


@pytest.mark.slow
def test_a_host_that_dies_is_told_by_the_other_and_the_run_goes_on_alone(tmp_path, hosts):
    """The first host dies, which has written all files and is where the others have met."""
    run, logs = tmp_path / "run", [tmp_path / "0.log", tmp_path / "1.log"]
    flags = ["--max-steps=2000", "--epochs=30", "--checkpoint-steps=2", f"--out={run}"]
    started = [host.start(*flags, log=log) for host, log in zip(hosts, logs, strict=True)]
    try:
        wait_for(run / "checkpoints" / "last.ckpt", started, logs)
        hosts[0].kill()
        assert started[1].wait(120) == 1, logs[1].read_text()
        assert "another process of this training has ended" in logs[1].read_text()
        assert f"kvicreg train --resume {run}" in logs[1].read_text()
    finally:
        for host in hosts:
            host.kill()
    steps = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["global_step"] + 2
    assert main(["train", "--resume", str(run), "--nodes=1", f"--max-steps={steps}"]) == 0
    alone = tmp_path / "alone"
    assert main(["train", *SETTINGS, "--epochs=30", f"--max-steps={steps}", f"--out={alone}"]) == 0
    assert_same_weights(alone, run)


def wait_for(path: Path, started: list[subprocess.Popen[bytes]], logs: list[Path]) -> None:
    """Wait until a file is there, as long as all processes live."""
    end = time.monotonic() + 240
    while not path.exists():
        assert all(process.poll() is None for process in started), "".join(log.read_text() for log in logs)
        assert time.monotonic() < end, "".join(log.read_text() for log in logs)
        time.sleep(0.2)
