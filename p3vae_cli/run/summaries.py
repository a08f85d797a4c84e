"""What a run made, as tables for people."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from p3vae.cli.console import stdout
from p3vae.cli.run.make import Product, RunSummary


def print_summary(summary: RunSummary) -> None:
    """Classes, maps with their figures, speed, and what was found in them."""
    table = Table(box=None, pad_edge=False)
    table.add_column("Map", overflow="fold")
    for heading in ("Mean", "Range"):
        table.add_column(heading, no_wrap=True)
    for product in summary.products:
        table.add_row(str(product.path), *_figures(product))
    console = stdout()
    for product in summary.products:
        if product.classes:
            console.print(_class_table(product))
    console.print(table)
    rate = summary.pixels / max(summary.seconds, 1e-9)
    console.print(
        f"{summary.pixels:,} pixels in {summary.seconds:.1f} s ({rate:,.0f} pixels/s)", highlight=False
    )
    for line in summary.findings.lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _figures(product: Product) -> tuple[str, str]:
    if product.classes or len(product.statistics) != 1 or not product.statistics[0].count:
        return "", ""
    statistics = product.statistics[0]
    unit = f" {product.spec.unit}" if product.spec.unit not in ("", "1") else ""
    return f"{statistics.mean:.4g}{unit}", f"{statistics.minimum:.4g} to {statistics.maximum:.4g}{unit}"


def _class_table(product: Product) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("Class")
    table.add_column("Pixels", justify="right")
    table.add_column("Hectares", justify="right")
    table.add_column("Share", justify="right")
    for extent in product.classes:
        hectares = "" if extent.hectares is None else f"{extent.hectares:,.2f}"
        share = f"{100 * extent.share:.1f} %"
        name = Text.assemble(("■ ", extent.color), extent.name)
        table.add_row(name, f"{extent.pixels:,}", hectares, share)
    return table
