"""Charts of the report: places on the page against those of the frame and of the ticks."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from p3vae.cli.report.charts import Axis, Line, line_chart, with_gaps

SVG = "{http://www.w3.org/2000/svg}"
X, Y = Axis("confidence", 0.0, 1.0), Axis("accuracy", -2.0, 3.0)


def drawn(x, *lines: Line) -> ET.Element:
    return ET.fromstring(line_chart(np.asarray(x, float), lines, X, Y, "a < b"))


def frame(chart: ET.Element) -> tuple[float, float, float, float]:
    """Left, top, bottom and right of the axes."""
    path = next(each.get("d") for each in chart.iter(f"{SVG}path") if each.get("class") == "axis")
    left, top, bottom, right = map(float, re.fullmatch(r"M(\S+) (\S+)V(\S+)H(\S+)", path).groups())
    return left, top, bottom, right


def test_the_ends_of_the_axes_are_the_corners_of_the_frame():
    values = np.array([-2.0, 0.5, 3.0])
    chart = drawn([0.0, 0.5, 1.0], Line("found", "#d9822b", values, marked=True))
    left, top, bottom, right = frame(chart)
    points = [(float(c.get("cx")), float(c.get("cy"))) for c in chart.iter(f"{SVG}circle")]
    assert points == [(left, bottom), ((left + right) / 2, (top + bottom) / 2), (right, top)]
    assert chart.find(f"{SVG}title").text == "a < b"


def test_ticks_stand_at_the_values_that_they_name():
    chart = drawn([0.0, 1.0], Line("found", "#d9822b", np.array([-2.0, 3.0])))
    left, top, bottom, right = frame(chart)
    for text in chart.iter(f"{SVG}text"):
        if text.get("transform") or not re.fullmatch(r"-?[\d.]+", text.text):
            continue
        value = float(text.text)
        if text.get("text-anchor") == "middle":
            assert float(text.get("x")) == pytest.approx(left + value * (right - left), abs=0.06)
        else:
            up = bottom - (value + 2.0) / 5.0 * (bottom - top)
            assert float(text.get("y")) - 4 == pytest.approx(up, abs=0.06)


def test_a_gap_breaks_the_line_and_a_band_is_shaded_between_its_edges():
    x, y = with_gaps(np.array([0.0, 0.1, 0.8, 0.9]), np.array([0.0, 1.0, 1.0, 0.0]), 0.5)
    assert np.isnan(x).tolist() == [False, False, True, False, False]
    low, high = y - 1.0, y + 1.0
    chart = drawn(x, Line("found", "#123456", y, band=(low, high)))
    lines = [p.get("d") for p in chart.iter(f"{SVG}path") if p.get("stroke") == "#123456"]
    shades = [p.get("d") for p in chart.iter(f"{SVG}path") if p.get("fill") == "#123456"]
    assert len(lines) == len(shades) == 2
    _, top, bottom, _ = frame(chart)
    numbers = np.array([float(n) for n in re.findall(r"[\d.]+", shades[0])]).reshape(-1, 2)
    step = (bottom - top) / 5.0
    expected = {round(bottom - (v + 2.0) * step, 1) for v in (-1.0, 0.0, 1.0, 2.0)}
    assert {round(v, 1) for v in numbers[:, 1]} == expected


def test_a_colour_bar_says_what_it_does_not_show() -> None:
    from p3vae.cli.report.page import colour_bar
    from p3vae.cli.styles.rasters import Stop

    scale = (Stop(0.0, "#000000", 0), Stop(1000.0, "#000000", 0), Stop(10_000.0, "#ffffff", 255))
    shown = colour_bar(scale, "ppm m", "methane", highest=13_994.0)
    assert "methane [ppm m]; not drawn below 1,000; highest value 13,994" in shown
    assert "highest" not in colour_bar(scale, "ppm m", "methane", highest=9000.0)
