"""Help texts: whole at 80 columns, with examples that name existing commands and options."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pytest

from p3vae.cli.commands.examples import EXAMPLES
from p3vae.cli.main import COMMANDS, main
from tests.cli.calls import run


def command_of(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def test_the_list_of_commands_is_not_cut_off() -> None:
    shown = run("--help", terminal_width=80).stdout
    assert "..." not in shown.partition("Commands:")[2]
    assert max(map(len, shown.splitlines())) <= 80
    for name in COMMANDS:
        assert f"\n  {name} " in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_examples_that_exist(name) -> None:
    shown = run(name, "--help", terminal_width=80).stdout
    assert "Example" in shown and max(map(len, shown.splitlines())) <= 82
    for line in EXAMPLES.get(name, ()):
        for call in line.split(" && "):
            words = shlex.split(call)
            if words[0] != "p3vae":
                continue
            known = {
                o
                for parameter in command_of(words[1]).params
                for o in (*parameter.opts, *parameter.secondary_opts)
            }
            assert {word for word in words[2:] if word.startswith("-")} <= known | {"-"}


def test_wrong_names_get_a_guess() -> None:
    said = run("clasify", "x.tif")
    assert said.exit_code == 2 and "Did you mean 'classify'?" in said.stderr
    assert "Did you mean '--output'?" in run("classify", "--outpt", "x").stderr
    assert "No such command 'zzz'" in run("zzz").stderr


def test_info_says_what_a_scene_is_fit_for(tmp_path) -> None:
    reflectance = run("info", "sample_data/town.tif").stdout
    assert "classify, irradiance-map, train, explain, suggest, brightness" in reflectance
    assert "a methane retrieval needs radiance (a level-1 product)" in reflectance
    radiance = next(Path("sample_data").glob("PRS_L1*.he5"))
    commands = {c["command"]: c for c in json.loads(run("info", radiance, "--json").stdout)["commands"]}
    assert commands["invert-methane"]["fit"] and not commands["classify"]["fit"]
    assert "needs reflectance" in commands["train"]["reason"]
