"""Tables from records whose numbers are known."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from p3vae.paper.metrics import paired_p_value
from p3vae.paper.reproduce import report
from p3vae.paper.reproduce.runs import FILES
from p3vae.paper.reproduce.tables import NAMES, Column, Row, Table, score_name, table

TABLE = Table(
    "small",
    "Small [m]",
    (Column("error", "error", ".1f"), Column("gain", "gain"), Column("nothing", "nothing")),
    (
        Row("other", "pendulum", "other", "", (3.0, None)),
        Row("never run", "pendulum", "never", "", (9.0,)),
        Row("ours", "pendulum", "ours"),
    ),
    seeds=2,
    notes=("A note.",),
    judged="error",
)
RECORDS = {
    ("pendulum", "other"): [
        {"seed": 0, "scores": {"error": 4.0, "gain": float("nan")}},
        {"seed": 1, "scores": {"error": 6.0, "gain": 0.25}},
    ],
    ("pendulum", "ours"): [{"seed": 1, "scores": {"error": 1.0}}, {"seed": 0, "scores": {"error": 2.0}}],
}


def test_numbers_stand_where_they_belong() -> None:
    page = report.markdown(report.fill(TABLE, RECORDS, ("2 seeds",)), "p3vae reproduce small")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if "|" in line]
    p = paired_p_value([4.0, 6.0], [2.0, 1.0])
    assert lines == [
        ["model", "", "error", "gain", "p"],
        ["---"] * 5,
        ["other", "published", "3.0", "", ""],
        ["", "here", "5.0 ± 1.4", "0.25", f"{p:.3f}"],
        ["", "difference", "+2.0", "", ""],
        ["ours", "here", "1.5 ± 0.7", "", ""],
    ]
    assert "A note." in page and "`p3vae reproduce small`" in page


def test_a_narrow_screen_shows_every_number_in_pieces(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = report.fill(TABLE, RECORDS, ("2 seeds",))
    monkeypatch.setattr(report, "stdout", lambda: Console(width=44))
    report.show(result)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 44
    assert printed.count("Small [m]") == printed.count("2 seeds") == 1
    assert all(number in printed for number in ("5.0 ± 1.4", "0.25", "+2.0", "1.5 ± 0.7"))
    assert "…" not in printed


def test_json_keeps_every_seed() -> None:
    reported = json.loads(report.as_json(report.fill(TABLE, RECORDS, ()), "command"))
    other, ours = reported["rows"]
    assert other["columns"][0]["values"] == {"0": 4.0, "1": 6.0}
    assert other["columns"][0]["published"] == 3.0
    assert ours["columns"][0]["mean"] == pytest.approx(1.5)
    assert ours["p_value"] is None


@pytest.mark.parametrize("name", NAMES)
def test_published_tables_are_whole(name: str) -> None:
    """Every row belongs to an experiment and has no more figures than columns; no two rows are the same."""
    it = table(name)
    assert set(it.experiments) <= set(FILES)
    assert all(len(row.published) <= len(it.columns) for row in it.rows)
    keys = [(row.experiment, row.model, row.prefix) for row in it.rows]
    assert len(set(keys)) == len(keys)
    names = {score_name(column, row) for row in it.rows for column in it.columns}
    assert not any(word in score for score in names for word in ("LETTER", "TEST", "LIGHT"))
    assert not it.judged or it.judged in [column.title for column in it.columns]
    assert it.rows[-1].model == "p3vae"


@pytest.mark.parametrize(
    ("name", "model", "prefix", "average"),
    [
        ("simulated", "p3vae-paper", "p", 0.93),
        ("simulated", "cnn", "q", 0.80),
        ("real", "guided-vae", "p", 0.87),
    ],
)
def test_the_published_average_is_that_of_the_published_classes(
    name: str, model: str, prefix: str, average: float
) -> None:
    """A slip of the pen in one class would show, up to the rounding of the paper."""
    row = next(row for row in table(name).rows if (row.model, row.prefix) == (model, prefix))
    *classes, published = row.published
    assert published == average
    assert sum(classes) / len(classes) == pytest.approx(average, abs=0.0101)
