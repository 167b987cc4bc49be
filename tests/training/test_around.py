"""What is around a training: trackers, timed losses, and the end of other processes, in words."""

from __future__ import annotations

import io
import signal
from types import SimpleNamespace

import pytest
import torch
from pictures import CPU
from rich.console import Console

from kvicreg.runs import RunFolder, Settings
from kvicreg.training import approximation, faults, loggers, run
from kvicreg.training.cost import Cost
from kvicreg.training.faults import ProcessWatch, clear_errors, is_lost_process
from kvicreg.training.stopping import Stopped


@pytest.mark.parametrize("uri", [None, "http://tracker"])
def test_mlflow_goes_where_its_variable_says_or_into_the_run(tmp_path, monkeypatch, uri):
    asked = []
    monkeypatch.setattr(loggers, "find_spec", lambda name: asked.append(name) or True)
    monkeypatch.setattr(loggers.loggers, "MLFlowLogger", lambda *given, **more: (given, more))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if uri is not None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    given, more = loggers.build_logger("mlflow", RunFolder(tmp_path / "run"))
    where = uri or f"sqlite:///{(tmp_path / 'run').resolve()}/mlflow.db"
    assert (given, more) == (("kvicreg",), {"run_name": "run", "tracking_uri": where})
    assert asked == ["mlflow"]


@pytest.mark.parametrize(("name", "package"), [("mlflow", "mlflow-skinny"), ("wandb", "wandb")])
def test_a_missing_tracker_is_told(tmp_path, monkeypatch, name, package):
    monkeypatch.setattr(loggers, "find_spec", {name: None}.__getitem__)
    with pytest.raises(ImportError, match="needs") as error:
        loggers.build_logger(name, RunFolder(tmp_path))
    assert str(error.value) == f"logging to {name} needs the package {package}: pip install 'kvicreg[track]'"


COST = Cost(CPU, 0, 0, 0.001, 0.0, 0.0)


def test_losses_are_timed_on_as_many_random_embeddings_as_a_batch_has_up_to_1024(monkeypatch):
    asked = []

    def measured(settings, rows, device, clock):
        asked.append((settings.flat()["approximation"], rows, device, clock))
        return (8.0, 2.0) if settings.flat()["approximation"] == "exact" else (1.0, 2.5)

    monkeypatch.setattr(approximation, "_measured", measured)
    clock, auto = iter(range(9)).__next__, Settings.of(approximation="auto", kernel="rbf")
    settings, why = approximation.choose_approximation(auto, COST, 2048, clock)
    assert asked == [("exact", 1024, CPU, clock), ("random-fourier", 1024, CPU, clock)]
    assert (settings.flat()["approximation"], settings.flat()["components"]) == ("random-fourier", 512)
    # the network takes 2.048 seconds, the exact loss 8 * 2^3 = 64, the other one 1 * 2
    assert why == (
        "approximation auto: random-fourier with 512 components takes about 49% of a step, where the exact loss would "
        "take 97%; their values differ by 25.0% on random embeddings, and on these images by the approximation_error "
        "of each epoch in the metrics."
    )
    approximation.choose_approximation(auto, COST, 100)
    assert [rows for _, rows, *_ in asked[2:]] == [100, 100]
    assert asked[2][3] is approximation.time.perf_counter


@pytest.mark.parametrize(
    ("kernel", "cost", "why"),
    [
        ("linear", COST, "approximation auto: exact, as linear always is."),
        ("rbf", COST._replace(image_seconds=float("nan")), "approximation auto: exact, nothing is timed."),
        ("rbf", COST._replace(image_seconds=1.0), "approximation auto: exact, which takes about 20% of a step."),
        ("rbf", COST._replace(image_seconds=0.75), "approximation auto: exact, which takes about 25% of a step."),
    ],
)
def test_an_exact_loss_is_explained(monkeypatch, kernel, cost, why):
    monkeypatch.setattr(approximation, "_measured", lambda settings, rows, device, clock: (256.0, 2.0))
    settings, told = approximation.choose_approximation(Settings.of(approximation="auto", kernel=kernel), cost, 1024)
    assert told == why
    assert settings.flat()["approximation"] == "exact"


def test_a_loss_is_measured_on_embeddings_of_its_own_width_and_number(monkeypatch):
    asked = []
    monkeypatch.setattr(approximation, "loss_cost", lambda loss, z, clock: asked.append((loss, z, clock)) or (1.0, 2.0))
    settings = Settings.of(projector_outputs=12, kernel="laplacian", seed=3)
    assert approximation._measured(settings, 7, CPU, "clock") == (1.0, 2.0)
    ((loss, z, clock),) = asked
    assert type(loss.kernel).__name__ == "Laplacian"
    generator = torch.Generator().manual_seed(3)
    assert [view.detach().equal(torch.randn(7, 12, generator=generator)) for view in z] == [True, True]
    assert all(view.requires_grad for view in z)
    assert clock == "clock"


@pytest.mark.parametrize(
    "words", ["[Gloo]", "nccl", "Connection closed by peer", "connection RESET by peer", "pair closure"]
)
def test_words_of_lost_processes_are_known(words):
    assert is_lost_process(RuntimeError(f"it says: {words}!"))
    assert is_lost_process(torch.distributed.DistBackendError("x"))
    assert not is_lost_process(RuntimeError("x"))


def cleared(error, tmp_path, **given):
    console = Console(file=io.StringIO(), width=500)
    settings = Settings.of(out=str(tmp_path / "run"), batch_size=8, timeout_minutes=2.5, **given)
    try:
        with clear_errors(settings, console):
            raise error
    except BaseException as raised:
        return type(raised), str(raised), console.file.getvalue()
    return None, "", console.file.getvalue()


def test_what_stops_a_training_says_how_to_go_on(tmp_path):
    again = f"kvicreg train --resume {tmp_path / 'run'}"
    stopped = f"Stopped here. Continue with: {again}\n"
    assert cleared(Stopped("Stopped here.", in_time=True), tmp_path) == (None, "", stopped)
    assert cleared(Stopped("Stopped here.", in_time=False), tmp_path) == (KeyboardInterrupt, "", stopped)
    at_once = SystemExit()
    at_once.__context__ = KeyboardInterrupt()
    told = f"Stopped at once, nothing saved since the last checkpoint. Continue with: {again}\n"
    assert cleared(at_once, tmp_path) == (KeyboardInterrupt, "", told)
    assert cleared(SystemExit(3), tmp_path) == (SystemExit, "3", "")
    lost = RuntimeError("nccl")
    assert cleared(lost, tmp_path, devices=2)[:2] == (
        ConnectionError,
        "another process of this training has ended, or has not answered for 2.5 minutes (timeout_minutes). Its own "
        f"message, if any, is above. Continue from the last checkpoint, with any number of processes: {again}",
    )
    assert cleared(lost, tmp_path) == (RuntimeError, "nccl", "")
    assert cleared(MemoryError(), tmp_path)[:2] == (
        MemoryError,
        "out of memory in a batch of 8 images. Try a smaller batch_size or image_size, a narrower projector, precision "
        "bf16-mixed, or approximation random-fourier; the last checkpoint is whole",
    )
    assert cleared(run.MisconfigurationException("no\n  gpu"), tmp_path)[:2] == (ValueError, "no gpu")


class Process:
    def __init__(self, code=None):
        self.code, self.signals = code, []

    def poll(self):
        return self.code

    def send_signal(self, number):
        self.signals.append(number)


def test_the_processes_that_were_started_are_watched_and_ended(monkeypatch):
    started = []
    monkeypatch.setattr(
        faults.threading, "Thread", lambda **given: SimpleNamespace(start=lambda: started.append(given))
    )
    watch, processes = ProcessWatch(), [Process(), Process()]
    for launcher in (None, SimpleNamespace(procs=[])):
        watch.setup(SimpleNamespace(strategy=SimpleNamespace(launcher=launcher)))
        watch.on_exception(SimpleNamespace(strategy=SimpleNamespace(launcher=launcher)), None, ValueError())
    assert started == []
    trainer = SimpleNamespace(strategy=SimpleNamespace(launcher=SimpleNamespace(procs=processes)))
    watch.setup(trainer)
    assert watch.watching is True
    assert started == [{"target": watch._watch, "args": (processes,), "daemon": True, "name": "process-watch"}]
    watch.on_exception(trainer, None, ValueError())
    assert [process.signals for process in processes] == [[signal.SIGKILL]] * 2
    watch.teardown(trainer)
    assert watch.watching is False


def test_a_process_that_fails_is_told_with_its_code(monkeypatch, capsys):
    def leave(code):
        raise SystemExit(code)

    slept = []
    watch, processes = ProcessWatch(), [Process(), Process()]
    watch.watching = True

    def sleep(seconds):
        slept.append(seconds)
        processes[1].code = 3

    monkeypatch.setattr(faults, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(faults.os, "_exit", leave)
    with pytest.raises(SystemExit, match="^1$"):
        watch._watch(processes)
    assert capsys.readouterr().err == (
        "kvicreg train: a process of this training failed with exit code 3; the others end too.\n"
    )
    assert slept == [0.2, 2.0]
