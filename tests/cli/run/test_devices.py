"""Devices that a user names."""

from __future__ import annotations

import pytest

from p3vae.cli.errors import UsageError
from p3vae.cli.run.model_files import resolve_device


@pytest.mark.parametrize(
    ("name", "said"),
    [("abacus", "--device abacus is unknown"), ("cuda:99", "--device cuda:99 cannot be used")],
)
def test_a_device_that_is_none_and_one_that_is_not_there_are_told_apart(name, said):
    with pytest.raises(UsageError, match=said):
        resolve_device(name)
    assert resolve_device("cpu") == "cpu"
