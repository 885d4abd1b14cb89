"""Launches that learn: for each shape class, real launches decide between stock Triton's kernel and its other forms.

    class "K <= 4096, 3 waves"     stock, challenged by the form with the best prediction     a trial
                                   the winner, challenged by the next form                    a trial
                                   no form is left: the winner is stored                      an entry of the table

No launch is repeated, and nothing is copied: of two launches, one runs one kernel and one the other, each between two
events on its stream (`tawa.plan.search.comparison` has the rule). A launch that the GPU waits for is not timed: it
would be the host's time. Only forms with stock Triton's bits take part. A
launch that is captured into a CUDA graph gets the champion, untimed.
"""

from __future__ import annotations

import logging
import threading
import zlib
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tawa.bridge.launch.descriptors import Passed
from tawa.bridge.launch.first.background import Task
from tawa.bridge.launch.first.clock import Clock
from tawa.bridge.launch.first.tuners import Measurement
from tawa.bridge.launch.host import Choices
from tawa.plan import Plan
from tawa.plan.option_conflicts import STOCK
from tawa.plan.search.comparison import CHALLENGER, CHAMPION, Comparison
from tawa.plan.search.measured import Timed

_log = logging.getLogger("tawa")

_MOST_AHEAD = 64
"""Launches whose times are not known yet."""
_OCCUPIED_S = 200e-6
"""Longer than this thread takes from a mark to the launch behind it."""
_MOST_IDLE = 4000
"""Launches in a row that the GPU has waited for: the host is the bottleneck, and what there is stays."""


@dataclass(frozen=True, slots=True)
class Made:
    """What launches with the same arguments and grid need.

    inner: Triton's launcher. kernel: the function and the packed metadata. compiled: the kernel. added: arguments
    behind the user's. passed: turns the user's arguments into those of `inner`. why: the prediction that chose it.
    moved: makes the same for arguments that differ in addresses only, from their values; None: it depends on them.
    """

    inner: Callable[..., None]
    grid: tuple[int, ...]
    kernel: tuple[Any, ...]
    compiled: Any
    added: tuple[Any, ...] = ()
    passed: Passed | None = None
    why: str = ""
    moved: Callable[[Sequence[Any]], Made] | None = None


@dataclass(slots=True)
class Lesson:
    """One shape class. champion: the fastest so far. waiting: the forms that come next, best prediction first.

    challenger, trial: who runs against the champion now. idle: launches that the GPU has waited for, in a row.
    incomplete: whether a form could not be tried, for no reason of its own. found: what was measured of each Plan, in
    its order. ranking: finds out which forms come next.
    """

    name: str
    words: dict[Plan, str] = field(default_factory=lambda: {STOCK: "stock Triton"})
    waiting: list[Plan] = field(default_factory=list[Plan])
    ranking: Task | None = None
    guessed: bool = False
    champion: Plan = STOCK
    challenger: Plan | None = None
    trial: Comparison | None = None
    idle: int = 0
    incomplete: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)
    found: list[Timed] = field(default_factory=list[Timed])
    pending: deque[tuple[Comparison, Hashable, int, Any, Any]] = field(
        default_factory=deque[tuple[Comparison, Hashable, int, Any, Any]]
    )

    @property
    def gives_up(self) -> bool:
        """Whether the host is the bottleneck of its launches: this process has nothing to learn."""
        return self.idle >= _MOST_IDLE

    def take(self, forms: Sequence[tuple[Plan, str]], guessed: bool) -> None:
        """The forms to try are known, with words for people. guessed: whether memory decides how much a launch does."""
        self.ranking, self.guessed = None, guessed
        self.words |= dict(forms)
        self.waiting = [plan for plan in dict([(STOCK, ""), *forms]) if plan != self.champion]

    def begin(self, plan: Plan) -> None:
        """The next form is ready to run against the champion."""
        seed = zlib.crc32(f"{self.name}|{plan}".encode())
        self.challenger, self.trial = plan, Comparison(seed, self.guessed)

    def end(self) -> bool:
        """Takes the result of the trial, if there is one; returns whether there was."""
        trial, challenger = self.trial, self.challenger
        if trial is None or trial.won is None or challenger is None:
            return False
        for which, plan in ((CHAMPION, self.champion), (CHALLENGER, challenger)):
            times = trial.times_ms(which)
            timed = Timed.of(self.words[plan], plan, times, f"{len(times)} launches")
            if all(it.plan != timed.plan for it in self.found):
                self.found.append(timed)
        self.champion = challenger if trial.won == CHALLENGER else self.champion
        self.trial = self.challenger = None
        return True

    def __str__(self) -> str:
        """What is being learned, for people."""
        trial, challenger = self.trial, self.challenger
        if trial is None or challenger is None:
            left = ", ".join(self.words[it] for it in self.waiting) or ("other forms" if self.ranking else "")
            return f"{self.name}: {self.words[self.champion]}" + (f"; {left} being compiled" if left else "")
        counts, gain = trial.counts, trial.gain
        so_far = f", {gain:.2f} so far" if gain is not None else ""
        names = (self.words[self.champion], self.words[challenger])
        told = ", ".join(f"{name} {count} launches" for name, count in zip(names, counts, strict=True))
        return f"{self.name}: {told}{so_far}"


class Learner:
    """What the launches of one kernel on one device have learned and are learning.

    settled: is called when a class has another champion, or a challenger: launches choose anew. is_apart: whether a
    launch takes no part: it is captured, or a tuner's.
    """

    def __init__(
        self, clock: Clock, choices: Choices, is_apart: Callable[[], bool], settled: Callable[[], None]
    ) -> None:
        self.clock, self.choices, self.is_apart, self.settled = clock, choices, is_apart, settled
        self.lessons: dict[str, Lesson] = {}
        self.tuned: dict[str, Plan] = {}

    def offer(self, measured: Measurement, name: str, plan: Plan) -> bool:
        """Lets a tuner time this form too, unless the class was measured before. Returns whether to launch it now."""
        if name in self.lessons or name in self.tuned:
            return False

        def settle(faster: bool) -> None:
            self.tuned[name] = plan if faster else STOCK

        measured.undecided[self, name] = settle
        return measured.with_twins

    def begins_with(self, name: str) -> Plan:
        """What launches of a class get for now: the champion, or what a tuner has measured to be the fastest."""
        lesson = self.lessons.get(name)
        return lesson.champion if lesson is not None else self.tuned.get(name, STOCK)

    def begin(self, name: str) -> Lesson:
        """A new shape class."""
        champion = self.begins_with(name)
        found = self.lessons[name] = Lesson(name, champion=champion)
        found.words.setdefault(champion, "specialised")
        return found

    def arms(self, lesson: Lesson, kind: Hashable, arms: tuple[Made, Made]) -> Callable[..., None]:
        """A function that launches one of two kernels, those of the trial now, in place of Triton's launcher."""
        trial = lesson.trial
        assert trial is not None

        def launch(
            grid_0: int, grid_1: int, grid_2: int, stream: int, about: Any, enter: Any, leave: Any, *args: Any
        ) -> None:
            which, begin = self._begin(lesson, trial, kind, stream)
            arm = arms[which or CHAMPION]
            try:
                given = args if arm.passed is None else arm.passed(args)
                arm.inner(*arm.grid, stream, *arm.kernel, about, enter, leave, *given, *arm.added)
            except Exception as error:
                self._failed(lesson, trial, kind, which, begin)
                if which != CHALLENGER:
                    raise
                _log.info("%s cannot be launched: %s", lesson.words[lesson.challenger or STOCK], error)
                arm = arms[CHAMPION]
                given = args if arm.passed is None else arm.passed(args)
                arm.inner(*arm.grid, stream, *arm.kernel, about, enter, leave, *given, *arm.added)
                return
            if which is not None:
                self._note(lesson, trial, kind, which, begin, stream)

        return launch

    def _begin(self, lesson: Lesson, trial: Comparison, kind: Hashable, stream: int) -> tuple[int | None, Any]:
        """The kernel of the next launch, and a mark before it; None: the champion, untimed."""
        if self.is_apart():
            return None, None
        learning.unsettled = self.clock
        if not lesson.lock.acquire(blocking=False):  # another thread is at it
            return None, None
        try:
            if not self._may_run(lesson, trial):
                return None, None
            begin = self._mark(lesson, stream)
            which = trial.next(kind) if begin is not None else None
            if which is None and begin is not None:
                self.clock.forget(begin)
            return which, begin
        finally:
            lesson.lock.release()

    def _failed(self, lesson: Lesson, trial: Comparison, kind: Hashable, which: int | None, begin: Any) -> None:
        """Called when a launch has raised. If the challenger was launched, it has lost."""
        if which is None:
            return
        with lesson.lock:
            self.clock.forget(begin)
            trial.drop(kind, which)
            if which == CHALLENGER and lesson.trial is trial:
                lesson.trial = lesson.challenger = None
                self.settled()

    def _may_run(self, lesson: Lesson, trial: Comparison) -> bool:
        """Whether the next launch may be timed, after the times that have arrived were read."""
        if lesson.trial is not trial:  # another thread has made this before the trial ended
            self.settled()
            return False
        self._read(lesson)
        if trial.won is not None:
            self._end(lesson)
            return False
        return len(lesson.pending) < _MOST_AHEAD

    def _mark(self, lesson: Lesson, stream: int) -> Any:
        """A mark before a launch; None if the GPU has nothing to do until then: it would wait for the host.

        In a warm-up it gets something to do.
        """
        with suppress(OSError):
            begin = self.clock.mark(stream)
            if learning.warming_up and self.clock.is_reached(begin):
                self.clock.forget(begin)
                self.clock.occupy(stream, _OCCUPIED_S)
                begin = self.clock.mark(stream)
            if not self.clock.is_reached(begin):
                return begin
            self.clock.forget(begin)
        self._waited(lesson)
        return None

    def _note(self, lesson: Lesson, trial: Comparison, kind: Hashable, which: int, begin: Any, stream: int) -> None:
        """A mark behind a launch, unless the GPU has waited for it."""
        with lesson.lock:
            with suppress(OSError):
                if not self.clock.is_reached(begin):
                    lesson.pending.append((trial, kind, which, begin, self.clock.mark(stream)))
                    lesson.idle = 0
                    return
            trial.drop(kind, which)
            self.clock.forget(begin)
            self._waited(lesson)

    def _waited(self, lesson: Lesson) -> None:
        lesson.idle += 1
        if lesson.gives_up:
            self.settled()

    def _read(self, lesson: Lesson) -> None:
        pending = lesson.pending
        while pending:
            trial, kind, which, begin, end = pending[0]
            try:
                time_ms = self.clock.read_ms(begin, end)
            except OSError:
                time_ms = 0.0  # it will not be known
            if time_ms is None:
                return
            pending.popleft()
            trial.add(kind, which, time_ms)

    def _end(self, lesson: Lesson) -> None:
        """A trial has its result."""
        if lesson.end():
            self.settled()

    def store(self, lesson: Lesson) -> None:
        """Nothing is left to learn for a class. What is incomplete is not stored: the next process tries again."""
        if lesson.incomplete:
            return
        self.choices.learn(lesson.name, lesson.champion, lesson.words[lesson.champion], lesson.found)

    def texts(self) -> tuple[str, ...]:
        """What is being learned, for people."""
        return tuple(
            f"learning: {it}" for it in self.lessons.values() if it.trial is not None or it.waiting or it.ranking
        )


class _Learning:
    """What the launches since somebody cleared it have left to learn.

    awaited: what a launch waits for in the background. unsettled: the clock of the last launch of a kernel that still
    learns. warming_up: whether `tawa.warmup` launches.
    """

    awaited: Task | None = None
    unsettled: Clock | None = None
    warming_up: bool = False

    def wait_for(self, task: Task | None) -> None:
        """A launch waits for that; a launch before it may wait for something else, which is kept."""
        if self.awaited is None or self.awaited.done:
            self.awaited = task or self.awaited


learning = _Learning()
