"""One chart of all ratios: each against its baseline, on a logarithmic scale, with the targets marked."""

from __future__ import annotations

import io

from benchmarks.results import Figure, shown

WIDTH = 11.5
"""Inches; the height follows the number of rows."""
STYLE = {
    "svg.hashsalt": "byref",
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 8,
}
ROW = 0.235
MARGINS = 1.9
COLORS = {None: "#4c6a92", True: "#2e7d4f", False: "#c0392b"}
"""Of a figure without a target, with one that is met, and with one that is missed."""


def drawn(sections: dict[str, list[Figure]], form: str = "svg") -> bytes:
    """The chart, as SVG or in another form: a row per figure that has a ratio, under the name of its benchmark."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    rows: list[tuple[str, Figure | None]] = []
    for name, figures in sections.items():
        measured = [figure for figure in figures if figure.ratio is not None and figure.ratio > 0]
        rows += [(name, None), *((figure.step, figure) for figure in measured)] if measured else []
    with mpl.rc_context(STYLE):
        height = MARGINS + ROW * max(1, len(rows))
        canvas = Canvas(figsize=(WIDTH, height), facecolor="white")
        axes = canvas.add_axes((0.42, 0.75 / height, 0.34, 1 - MARGINS / height))
        axes.set_facecolor("white")
        axes.set_xscale("log")
        axes.axvline(1, color="#333333", linewidth=1)
        for place, (_, figure) in enumerate(rows):
            if figure is None or figure.ratio is None:
                continue
            color = COLORS[figure.verdict]
            axes.plot([1, figure.ratio], [place, place], color=color, linewidth=1.4, alpha=0.45, solid_capstyle="butt")
            axes.plot([figure.ratio], [place], "o", color=color, markersize=4.5)
            if figure.limit is not None and figure.limit[2]:
                axes.plot([figure.limit[1]], [place], "|", color="#111111", markersize=9, markeredgewidth=1.4)
            axes.annotate(
                f"{shown(figure.ratio)}x  {figure.baseline}",
                (1.02, place),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=7,
                color=color,
            )
        axes.set_yticks(range(len(rows)), [label for label, _ in rows])
        for label, (_, figure) in zip(axes.get_yticklabels(), rows, strict=True):
            label.set_fontweight("bold" if figure is None else "normal")
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", which="both", top=True, labeltop=True)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
        axes.grid(axis="x", which="major", color="#dddddd", linewidth=0.7)
        axes.set_axisbelow(True)
        for side in ("left", "right"):
            axes.spines[side].set_visible(False)
        canvas.text(
            0.02,
            1 - 0.3 / height,
            "Ours, as a multiple of the baseline of the same run",
            fontsize=12,
            weight="bold",
            va="center",
        )
        marks = [
            Line2D([], [], marker="o", linestyle="", color=COLORS[True], label="target met"),
            Line2D([], [], marker="o", linestyle="", color=COLORS[False], label="target missed"),
            Line2D([], [], marker="o", linestyle="", color=COLORS[None], label="no target"),
            Line2D([], [], marker="|", linestyle="", color="#111111", markersize=9, label="target"),
        ]
        canvas.legend(
            handles=marks, loc="center right", bbox_to_anchor=(0.98, 1 - 0.3 / height), ncols=4, frameon=False
        )
        written = io.BytesIO()
        canvas.savefig(written, format=form, metadata={"Date": None} if form == "svg" else None)
    return written.getvalue()
