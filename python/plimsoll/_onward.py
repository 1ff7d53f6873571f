"""How a script's steps compare with each other, and how much the script keeps from step to step: what tells whether a few
steps show them all.

Of each step (from one optimizer's step to the next) the largest pass is known, in bytes that forward made between two calls of
backward, and what is kept: storages on the card that were there before the step began and are neither weights nor
gradients nor the optimizer's. Batches that are padded to their longest sample, random crops, growing images and layers that are
unfrozen change the first; outputs and losses that are put into a list without detach() grow the second.

Steps that are alike tell of the later ones. Where they are not, `beyond` is what the later ones may take more than any that was
seen, by which the interval's upper end is raised.
"""
from __future__ import annotations

from typing import Any

from . import _words
from ._record import Recording

ALIKE = 0.02  # of a step's largest pass: less is no difference
SPREAD = 3.0  # standard deviations of the passes that were seen, above their mean: as large as one may come to be
# Of what a step takes: so much is always allowed for, since memory breaks into pieces; where passes differ, and where batches do in
# more than the number of samples (run_translation.py, padded to the longest of a batch, H200, 2026-11-16: 7,578 MiB reserved
# of 4,614 allocated after 8 steps, with 4,536 after 2).
LEAST_MORE, VARIED_MORE = 0.15, 0.40
GROWING = 3  # steps in turn that must keep more than the one before
STEPS_AHEAD = 1000  # for which what is kept is reckoned, where the script's own number is not known
RISING = 6  # steps that must not make less than the one before
GROWTH = 0.02  # of the peak: what is kept in STEPS_AHEAD steps is told from there on


class Onward:
    """Told when an optimizer has stepped, and when a pass begins."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.backwards = 0  # calls so far
        self.passes: list[int] = []  # of each step, the largest one's bytes; 0: not known
        self.kept: list[int] = []  # at the end of each step
        self.lasting: list[int] = []  # all that is alive then
        self.ahead = STEPS_AHEAD  # for which what is kept is reckoned
        self.held = (0, 0)  # bytes that an evaluation keeps of each batch, and batches that it was not given
        self.varied = False  # batches that were looked at do
        self.larger = 1.0  # times as many elements as any that was given has one of them
        self.settled = 0  # steps in which every optimizer has stepped
        self._partial = 0  # so many steps may be of a last, smaller batch
        self._largest, self._begin, self._first, self._within = 0, 0, 0, False

    def backward(self) -> None:
        """A pass's forward is over."""
        made = self.recording.made_forward
        self._largest, self._begin = max(self._largest, made - self._begin), made
        self.backwards += 1

    def anew(self) -> None:
        """A pass may begin here: after backward, or where one came to nothing."""
        self._begin, self._within = self.recording.made_forward, False

    def forward(self, gradients: bool) -> None:
        """A model is called. What was made between an evaluation and the next step's first call is not that step's."""
        if gradients and not self._within:
            self._begin = self.recording.made_forward
        self._within = gradients

    def last_batch(self) -> None:
        """The next batch is the last one, and smaller, which tells nothing of the others; loaders may have others ready before it."""
        self._partial = 4

    def gathered(self, each: int, left: int) -> None:
        """An evaluation kept so many bytes of its last batch, and was not given `left` more."""
        if each * left > max(self.held[0] * self.held[1], GROWTH * self.recording.card.most):
            self.held = each, left

    def looked_at(self, varied: bool, larger: float) -> None:
        """Batches that follow: whether samples of them differ, and how much larger one of them is than those that are simulated."""
        self.varied |= varied
        self.larger = max(self.larger, larger)

    def stepped(self) -> None:
        """A step is over."""
        r = self.recording
        partial = self._partial > 0 and self._largest < max(self.passes, default=0)
        self.passes.append(0 if partial else self._largest)
        self._partial = 0 if partial else max(self._partial - 1, 0)
        self.kept.append(sum(r.storages[number][0] for number, _ in list(r.live.values())
                             if number < self._first and r.storages[number][1] not in ("weights", "gradients", "optimizer")))
        self.lasting.append(r.card.alive)
        self._largest, self._begin, self._first = 0, r.made_forward, len(r.storages)

    # ---- what they tell; the first step makes what the others have ----

    @property
    def differ(self) -> bool:
        """Whether the steps' passes are of different sizes: of three or more, or of one that is larger than those before. Smaller ones
        alone come at the end of every epoch."""
        if self.varied:
            return True
        most = sizes = last = 0
        for i, size in enumerate(self.passes[1:], 1):
            if i >= self.settled and most and size > (1 + ALIKE) * most:
                return True
            most = max(most, size)
        for size in sorted(p for p in self.passes[1:] if p):
            if size > (1 + ALIKE) * last:
                sizes, last = sizes + 1, size
        return sizes > 2

    @property
    def growth(self) -> int:
        """Bytes that each step keeps more than the one before, in the mean; 0 where that does not go on."""
        kept = self.kept[1:]
        third = len(kept) // 3
        if third >= GROWING:  # what is kept every few steps: the last third above the first, and growing itself
            first, final = kept[:third], kept[-third:]
            if min(final) > max(first) and sum(final[third // 2:]) * (third // 2) > sum(final[:third // 2]) * (third - third // 2):
                return self._tells(round((sum(final) - sum(first)) / third / (len(kept) - third)))
        last = kept[-GROWING - 1:]
        more = [b - a for a, b in zip(last, last[1:])]
        if len(more) < GROWING or min(more) <= 0:
            return 0
        return self._tells(min(more))

    def _tells(self, each: int) -> int:
        return each if each * STEPS_AHEAD > GROWTH * self.recording.card.most else 0

    @property
    def may_grow(self) -> bool:
        """Whether the last step keeps more than the one before it."""
        return len(self.kept) > 2 and self.kept[-1] > self.kept[-2] and (self.kept[-1] - self.kept[-2]) * STEPS_AHEAD > (
            GROWTH * self.recording.card.most)

    @property
    def steady(self) -> bool:
        return not self.differ and not self.may_grow

    @property
    def slope(self) -> int:
        """Bytes that forward makes more in each step than in the one before, where it never makes less."""
        seen = [p for p in self.passes[1:] if p]
        if len(seen) < RISING or any(b < a for a, b in zip(seen, seen[1:])) or seen[-1] <= (1 + ALIKE) * seen[0]:
            return 0
        if seen[-1] == seen[-1 - len(seen) // 3]:
            return 0  # it has come to its end
        return (seen[-1] - seen[0]) // (len(seen) - 1)

    def beyond(self) -> int:
        """Bytes by which later steps may take more than those that were seen."""
        more = self.ahead * self.growth + 2 * self.held[0] * self.held[1]  # twice: it is put together in the end
        more += self.ahead * self.slope
        if self.differ:
            seen = [p for p in self.passes[1:] if p]
            mean = sum(seen) / max(len(seen), 1)
            deviation = (sum((p - mean) ** 2 for p in seen) / max(len(seen) - 1, 1)) ** 0.5
            share = max(self.larger - 1, (mean + SPREAD * deviation) / max(seen, default=1) - 1, VARIED_MORE if self.varied else LEAST_MORE)
            more += round(share * max(self.recording.card.most - min(self.lasting[1:], default=0), 0))
        return more

    def sentences(self) -> list[str]:
        """The same for people."""
        said = []
        if self.differ:
            seen = [p for p in self.passes[1:] if p]
            said.append("steps are not alike: %s; the peak is that of the largest seen, and the upper end allows for larger ones" % (
                "samples of the next batches differ in size" if self.varied else
                "forward makes from %s to %s in the %d that were compared (batches of different sizes, or layers that come and go)"
                % (_words.size(min(seen, default=0)), _words.size(max(seen, default=0)), len(seen))))
        if self.slope:
            said.append("forward makes more with every step, %s in the mean: the upper end is for %s steps more" % (
                _words.size(self.slope), f"{self.ahead:,}"))
        if self.held[1]:
            said.append("an evaluation keeps %s of each batch on the card: the upper end is for the %d batches more that its DataLoader has"
                        % (_words.size(self.held[0]), self.held[1]))
        if self.growth:
            said.append("each step keeps %s more on the card than the one before (%s): the upper end is for %s steps more; an output or a loss "
                        "that is kept without detach() is the usual reason" % (_words.size(self.growth), self._what(), f"{self.ahead:,}"))
        return said

    def _what(self) -> str:
        """What the largest storage that was kept for several steps was made by."""
        r = self.recording
        own = ("weights", "gradients", "optimizer")
        numbers = [n for n, _ in list(r.live.values()) if n < self._first and r.storages[n][1] not in own]
        if not numbers:
            return "?"
        largest: Any = max(numbers, key=lambda n: (r.storages[n][0], n))
        tensors = {i for i, t in enumerate(r.tensors) if t[0] == largest}
        names = list(r.names)
        for event in r.events:
            if isinstance(event, list) and event[0] >= 0 and not tensors.isdisjoint(event[4]):
                where = r.modules[event[1]][0] if event[1] >= 0 else ""
                return "%s%s, for one" % (names[event[0]], " of " + where if where else "")
        return "tensors of %s" % _words.size(r.storages[largest][0])
