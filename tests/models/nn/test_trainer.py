"""The common trainer: what it takes, where it computes, and that it stops at a broken loss."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from p3vae.models.nn.trainer import BrokenRunError, Optimisation, moved, train
from p3vae.paper.landcover.network import SpectraBatch


def test_batches_follow_the_model_to_its_device():
    """The device `meta` holds no values, but says where a tensor would be."""
    there = moved(SpectraBatch(torch.ones(2, 3), torch.zeros(2), torch.ones(1, 3), 7), "meta")
    assert isinstance(there, SpectraBatch)
    assert {part.device.type for part in there[:3]} == {"meta"}
    assert there.step == 7
    pair = moved((torch.ones(2), 3), "meta")
    assert pair[0].device.type == "meta"
    assert pair[1] == 3


def test_a_line_is_found_and_resuming_changes_nothing():
    x = torch.linspace(-1, 1, 32)[:, None]

    def trained(epochs, **options):
        torch.manual_seed(0)
        line = nn.Linear(1, 1)

        def loss(batch):
            return {"total": (line(batch) - 3 * batch - 1).square().mean()}

        how = Optimisation(epochs, learning_rate=0.1, lowest_rate=0.1, warmup_steps=0)
        train(line, lambda _, __: [x], loss, how, seed=1, **options)
        return line

    states = []
    whole = trained(200, save_state=states.append)
    assert whole.weight.item() == pytest.approx(3.0, abs=0.01)
    assert whole.bias.item() == pytest.approx(1.0, abs=0.01)
    resumed = trained(200, resume_from=states[99])
    assert torch.equal(resumed.weight, whole.weight)


def test_a_loss_that_is_no_number_stops_the_run():
    line = nn.Linear(1, 1)
    with pytest.raises(BrokenRunError, match="nan"):
        train(
            line,
            lambda _, __: [torch.ones(1, 1)],
            lambda batch: {"total": line(batch).sum() * float("nan")},
            Optimisation(1),
            seed=0,
        )


def test_training_leaves_the_arithmetic_as_it_was():
    line, smallest = nn.Linear(1, 1), torch.tensor(1e-40)
    during = []

    def loss(batch):
        during.append((smallest * 0.5).item())
        return {"total": line(batch).square().mean()}

    train(line, lambda _, __: [torch.ones(1, 1)], loss, Optimisation(1), seed=0)
    assert during == [0.0]
    assert (smallest * 0.5).item() > 0.0
