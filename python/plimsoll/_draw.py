"""Pictures of a report: the timeline as SVG (the command's, cli/timeline.c, in any size) and as CSV, and
the card that notebooks show.

The picture has at most one column per pixel. Of the moments that fall into a column it shows the one with
the most allocated, and the most reserved, so that no peak is lost. Stacked from below: what is outside
the allocator, then the kinds; the line above them is reserved and outside, which nvidia-smi shows.
Colours and sizes stand as attributes, since notebooks strip style sheets.
"""
from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Iterable, List, Optional, Sequence, Tuple

from . import _words
from ._library import KINDS, MOMENT_KINDS, PHASES

if TYPE_CHECKING:
    from ._report import Report

# From below; context is no kind of a moment: it is the same throughout.
COLOURS = {"context": "#b9b5ae", "weights": "#4a78a8", "optimizer": "#a97ba3", "gradients": "#ee8f2f", "activations": "#5a9f52",
           "inputs": "#8c6a56", "workspace": "#dd5458", "temporary": "#e9c341", "fragmentation": "#dcdad3"}
STACK = [kind for kind in COLOURS if kind != "fragmentation"]
INK, FAINT, GRID, PAPER, ALARM, GOOD = "#22221f", "#74746c", "#dadad2", "#f6f6f3", "#c2272d", "#2f7d32"
VERDICTS = {"fits": GOOD, "may not fit": "#8a5a00", "does not fit": ALARM}
SMALLEST = 10  # points of a title
LABELS = 38  # two lines of labels above the curve
FONT = "'DejaVu Sans','Noto Sans',Arial,Helvetica,sans-serif"

_BANDS = {"load": ("load",), "forward": ("forward", "fwd", "f"), "backward": ("backward", "bwd", "b"),
          "optimizer": ("optimizer", "opt", "o")}


def _text_width(text: str, points: float) -> float:
    return 0.58 * points * len(text)


def _folded(text: str, points: float, bold: bool, width: float) -> Tuple[float, List[str]]:
    """In so many lines as it takes, and their size: smaller where it is too long, down to SMALLEST."""
    each = 1.08 if bold else 1.0
    while points > SMALLEST and each * _text_width(text, points) > width:
        points -= 1
    room = max(int(width / (each * _text_width("x", points))), 8)
    return points, textwrap.wrap(text, room, break_on_hyphens=False) or [""]


def _tick(count: int) -> str:
    value, unit = float(count), 0
    while unit < 3 and value >= 1024:
        value, unit = value / 1024, unit + 1
    return "%g %s" % (value, ("B", "KiB", "MiB", "GiB")[unit])


class _Picture:
    """A timeline on its way to SVG. columns: (kinds, reserved, phase, step) each; heights in bytes."""

    def __init__(self, report: "Report", width: int, height: int, title: bool) -> None:
        self.report, self.width, self.height = report, width, height
        self.left, self.right = 84, 24
        self.plot_width = width - self.left - self.right
        self.out: List[str] = []
        self.head = "%s: GPU memory over the first training steps" % report.name
        job = "%s, %s usable" % (report._lines_of_model()[1], _words.size(report.usable_bytes))
        note = "lines and areas stand on what lies outside the allocator; in the legend, the most of each kind"
        self.titles = [_folded(self.head, 17, True, self.plot_width), _folded(job, 12, False, self.plot_width),
                       _folded(note, 11, False, self.plot_width)] if title else []
        self.top = 104 + 14 * sum(len(lines) - 1 for _, lines in self.titles) if title else 50
        self.outside = report.overhead_bytes or 0
        self.most = {kind: 0 for kind in MOMENT_KINDS}
        self.total = 0
        self.columns = self._gather()
        self.legend_rows = self._legend_rows()
        self.bottom = 48 + 22 * len(self.legend_rows)
        self.plot_height = height - self.top - self.bottom
        top = max(reserved for _, reserved, _, _ in self.columns) + self.outside
        # Room for the labels of the peak and of the card, one above the other.
        part = min(10 / 11, max(1 - LABELS / max(self.plot_height, 1), 0.5))
        self.range = max(int(top / part), 1)
        capacity = report.usable_bytes
        if 0 < capacity < top + top // 2:
            self.range = max(self.range, capacity + capacity // 16)
        self.tops = [self._stack(kinds) for kinds, _, _, _ in self.columns]

    def _gather(self) -> List[Tuple[Sequence[int], int, int, int]]:
        moments = self.report._moments()
        self.total = total = len(moments)
        count = min(total, self.plot_width)
        best: List[Any] = [None] * count
        allocated, reserved = [-1] * count, [0] * count
        most = [0] * len(MOMENT_KINDS)
        for i, (has, holds, kinds, phase, step) in enumerate(moments):
            c = i * count // total
            if has > allocated[c]:
                allocated[c], best[c] = has, (kinds, phase, step)
            if holds > reserved[c]:
                reserved[c] = holds
            if any(a > b for a, b in zip(kinds, most)):
                most = [max(a, b) for a, b in zip(kinds, most)]
        self.most = dict(zip(MOMENT_KINDS, most))
        return [(kinds, holds, phase, step) for (kinds, phase, step), holds in zip(best, reserved)]

    def _stack(self, kinds: Sequence[int]) -> List[int]:
        """Bytes up to the top of each layer; the first is the floor."""
        sums, total = [0], 0
        for kind in STACK:
            total += self.outside if kind == "context" else kinds[MOMENT_KINDS.index(kind)]
            sums.append(total)
        return sums

    # ---- places and shapes ----

    def x(self, column: int) -> float:
        return self.left + self.plot_width * column / len(self.columns)

    def y(self, count: float) -> float:
        return self.top + self.plot_height * (1 - count / self.range)

    def rect(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        self.out.append('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>' % (x, y, width, height, fill))

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str, width: float, dash: str = "") -> None:
        extra = ' stroke-dasharray="%s"' % dash if dash else ""
        self.out.append('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"%s/>'
                        % (x1, y1, x2, y2, stroke, width, extra))

    def text(self, x: float, y: float, string: str, points: float = 12, anchor: str = "start", fill: str = INK,
             bold: bool = False) -> None:
        self.out.append('<text x="%.1f" y="%.1f" font-size="%.0f" text-anchor="%s" fill="%s"%s>%s</text>'
                        % (x, y, points, anchor, fill, ' font-weight="bold"' if bold else "", _words.xml(string)))

    def head_lines(self) -> None:
        """No title is cut: each is smaller where it is too long, then of several lines."""
        y = 26.0
        for (points, lines), fill, below in zip(self.titles, (INK, INK, FAINT), (19, 16, 0)):
            for line in lines:
                self.text(self.left, y, line, points, fill=fill, bold=fill is INK and below == 19)
                y += 14
            y += below - 14

    # ---- parts ----

    def bands(self, names: bool) -> None:
        """Loading, then each step; in a step its phases."""
        for start, end, (phase, _) in self._runs(lambda c: (c[2], c[3])):
            x, to, name = self.x(start), self.x(end), PHASES[phase]
            if names:
                self.label(x, to, self.top - 10, _BANDS.get(name, ()), False)
            elif name in ("backward", "optimizer"):
                self.rect(x, self.top, to - x, self.plot_height, "#ecece6" if name == "backward" else "#e2e2da")
        if not names:
            return
        for start, end, (loading, step) in self._runs(lambda c: (PHASES[c[2]] == "load", c[3])):
            x, to = self.x(start), self.x(end)
            if start:
                self.line(x, self.top - 40, x, self.height - self.bottom, FAINT, 1, "2 3")
            if not loading:
                self.label(x, to, self.top - 27, ("step %d" % (step + 1), str(step + 1)), True)

    def _runs(self, key: Any) -> Iterable[Tuple[int, int, Any]]:
        start = 0
        for i in range(1, len(self.columns) + 1):
            if i == len(self.columns) or key(self.columns[i]) != key(self.columns[start]):
                yield start, i, key(self.columns[start])
                start = i

    def label(self, start: float, end: float, y: float, texts: Sequence[str], bold: bool) -> None:
        """The first text that fits; nothing where none does."""
        for text in texts:
            if _text_width(text, 12) + 6 <= end - start:
                self.text((start + end) / 2, y, text, anchor="middle", fill=INK if bold else FAINT, bold=bold)
                return

    def axes(self) -> None:
        step = 1024
        while self.range // step > 8:
            step *= 2
        for at in range(0, self.range + 1, step):
            self.line(self.left, self.y(at), self.width - self.right, self.y(at), GRID, 1)
            self.text(self.left - 8, self.y(at) + 4, _tick(at), anchor="end")
        below = self.height - self.bottom + 18
        self.text(self.left, below, "allocations and frees, in order", fill=FAINT)
        self.text(self.width - self.right, below, "%d of them" % self.total, anchor="end", fill=FAINT)

    def layers(self) -> None:
        for layer, kind in enumerate(STACK):
            low = [tops[layer] for tops in self.tops]
            high = [tops[layer + 1] for tops in self.tops]
            if low == high:
                continue
            d = [self._steps(high, "M%.1f %.1f" % (self.x(0), self.y(high[0])))]
            d.append("V%.1f" % self.y(low[-1]))
            for i in range(len(low) - 1, 0, -1):
                if low[i] != low[i - 1]:
                    d.append("H%.1fV%.1f" % (self.x(i), self.y(low[i - 1])))
            d.append("H%.1fZ" % self.x(0))
            self.out.append('<path fill="%s" d="%s"/>' % (COLOURS[kind], "".join(d)))

    def _steps(self, heights: Sequence[int], start: str) -> str:
        d = [start]
        for i in range(1, len(heights)):
            if heights[i] != heights[i - 1]:
                d.append("H%.1fV%.1f" % (self.x(i), self.y(heights[i])))
        d.append("H%.1f" % self.x(len(heights)))
        return "".join(d)

    def curve(self, heights: Sequence[int], colour: str, width: float) -> None:
        d = self._steps(heights, "M%.1f %.1f" % (self.x(0), self.y(heights[0])))
        self.out.append('<path fill="none" stroke="%s" stroke-width="%.1f" d="%s"/>' % (colour, width, d))

    def capacity(self) -> None:
        usable = self.report.usable_bytes
        said = "%s usable of %s" % (_words.size(usable), self.report.gpu.title)
        if usable > self.range:  # beyond the picture
            self.text(self.width - self.right - 4, self.top + 14, "↑ " + said, anchor="end", fill=ALARM)
            return
        y = self.y(usable)
        self.line(self.left, y, self.width - self.right, y, ALARM, 1.5, "7 4")
        self.text(self.left + 6, y - 6, said, fill=ALARM)

    def peak(self) -> None:
        """A dot where most is reserved, of these columns the first with the most allocated."""
        report = self.report
        best = max(range(len(self.columns)), key=lambda i: (self.columns[i][1], self.tops[i][-1], -i))
        x, y = self.x(best), self.y(self.columns[best][1] + self.outside)
        text = "peak " + _words.size(report.peak_bytes)
        if report.peak_operator:
            text += "; most is allocated in " + report.peak_operator
            if report.peak_module:
                text += " of " + report.peak_module
        room = self.plot_width - 8
        if _text_width(text, 12) > room:
            text = text[:int(room / _text_width("x", 12)) - 1] + "…"
        self.out.append('<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>' % (x, y, INK))
        width = _text_width(text, 12)
        if x + width <= self.width - self.right:
            self.text(x - 2, y - 10, text, bold=True)
        elif x - width >= self.left:
            self.text(x + 2, y - 10, text, anchor="end", bold=True)
        else:
            self.text(self.left + self.plot_width / 2, y - 10, text, anchor="middle", bold=True)

    def _legend_rows(self) -> List[List[Tuple[str, str, float]]]:
        """(text, kind, "" of a line) in rows that fit, each with the width it takes."""
        entries = [("reserved", ""), ("allocated", "")]
        for kind in STACK:
            most = self.outside if kind == "context" else self.most[kind]
            if most:
                entries.append(("%s %s" % (kind, _words.size(most)), kind))
        rows: List[List[Tuple[str, str, float]]] = [[]]
        used = 0.0
        for text, kind in entries:
            width = (17 if kind else 21) + _text_width(text, 12) + 16
            if used + width > self.plot_width and rows[-1]:
                rows.append([])
                used = 0.0
            rows[-1].append((text, kind, width))
            used += width
        return rows

    def legend(self) -> None:
        y = float(self.height - self.bottom + 48)
        for row in self.legend_rows:
            x = float(self.left)
            for text, kind, width in row:
                if kind:
                    self.rect(x, y - 10, 12, 12, COLOURS[kind])
                else:
                    reserved = text == "reserved"
                    self.line(x, y - 4, x + 16, y - 4, INK if reserved else "#55554f", 2 if reserved else 1)
                self.text(x + (17 if kind else 21), y, text)
                x += width
            y += 22


def timeline_svg(report: "Report", width: int = 1200, height: int = 620, title: bool = True) -> str:
    """The simulated steps as one SVG element."""
    p = _Picture(report, width, height, title)
    p.out.append('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="%s">'
                 % (width, height, width, height, FONT))
    p.out.append("<title>%s</title>" % _words.xml(p.head))
    p.rect(0, 0, width, height, PAPER)
    p.head_lines()
    p.bands(False)
    p.axes()
    p.layers()
    p.curve([tops[-1] for tops in p.tops], "#55554f", 0.5)
    p.curve([reserved + p.outside for _, reserved, _, _ in p.columns], INK, 1.8)
    p.bands(True)
    p.capacity()
    p.peak()
    p.legend()
    p.out.append("</svg>")
    return "\n".join(p.out) + "\n"


def _field(text: Optional[str]) -> str:
    """One CSV field (RFC 4180): quoted, quotes doubled, control characters out."""
    return '"%s"' % "".join("?" if ord(c) < 32 else '""' if c == '"' else c for c in text or "")


def timeline_csv(report: "Report") -> str:
    """Every moment, one line each: bytes."""
    out = ["event,step,phase,allocated,reserved,%s,operator,module" % ",".join(MOMENT_KINDS)]
    for i, m in enumerate(report.timeline or ()):
        out.append("%d,%d,%s,%d,%d,%s,%s,%s" % (i, m.step, m.phase, m.allocated, m.reserved, ",".join(map(str, m[2:9])),
                                                _field(m.operator), _field(m.module)))
    return "\n".join(out) + "\n"


# ---- the card of a notebook ----

def _cells(report: "Report") -> str:
    """The breakdown as one bar with a cell per kind, and its figures below."""
    parts = [(kind, report.breakdown[kind] or 0) for kind in KINDS if report.breakdown.get(kind)]
    total = sum(count for _, count in parts) or 1
    bar = "".join('<div title="%s %s" style="flex:%.5f 0 0;background:%s"></div>'
                  % (kind, _words.size(count), max(count / total, 0.001), COLOURS[kind]) for kind, count in parts)
    legend = "".join('<span style="white-space:nowrap;margin-right:14px"><span style="display:inline-block;width:10px;height:10px;'
                     'margin-right:5px;background:%s"></span>%s %s <span style="color:%s">%.1f&#160;%%</span></span> '
                     % (COLOURS[kind], kind, _words.size(count), FAINT, 100 * count / total) for kind, count in parts)
    return ('<div style="display:flex;height:16px;margin:10px 0 6px;border-radius:3px;overflow:hidden">%s</div>'
            '<div style="line-height:1.7">%s</div>' % (bar, legend))


def card(report: "Report") -> str:
    """What a notebook shows of a report."""
    x = _words.xml
    lines = report._lines_of_model()
    verdict = report._line_of_fit()
    out = ['<div style="font-family:%s;font-size:13px;color:%s;background:%s;border:1px solid %s;border-radius:6px;'
           'padding:14px 18px;max-width:920px">' % (FONT.replace('"', "'"), INK, PAPER, GRID)]
    out.append('<div style="color:%s">%s<br/>%s</div>' % (FAINT, x(lines[0]), x(lines[1])))
    out.append('<div style="margin-top:8px"><span style="font-size:24px;font-weight:bold">%s</span> <span style="color:%s">'
               'at the peak%s</span></div>' % (x(_words.size(report.peak_bytes)), FAINT, x(report._interval())))
    out.append('<div style="color:%s;font-weight:bold">%s</div>' % (VERDICTS.get(report.verdict, ALARM), x(verdict)))
    if report.step_ms is not None:
        usage = [line.strip() for line in report._lines_of_use() if line]
        out.append('<div style="margin-top:8px">%s<br/><span style="color:%s">%s</span></div>'
                   % (x(usage[0]), FAINT, x("; ".join(usage[1:3]))))
        busy = ["%s %.1f %%%s" % (name, figure.value, " (%s)" % report.levels[name] if report.levels.get(name) else "")
                for name, figure in report.utilization.items() if figure.value is not None]
        out.append('<div style="color:%s">%s</div>' % (FAINT, x(", ".join(busy))))
    if report.has_breakdown:
        out.append(_cells(report))
    if report.has_timeline:
        out.append('<div style="overflow-x:auto">%s</div>' % timeline_svg(report, 880, 420, title=False))
    for warning in report.warnings:
        out.append('<div style="color:#8a5a00">warning: %s</div>' % x(warning))
    out.append("</div>")
    return "\n".join(out)
