"""The journal that lets both sides of an unknown test be evaluated and their states joined.

All mutable state of the target lives in dicts (locals, attributes, module names) and in its own lists, dicts and sets.
While a fork is open each change is journaled with the old content, so that a side can be captured, undone and merged.
"""

from __future__ import annotations

from typing import Any

from triage.analysis.evaluate.values import ABSENT, Maybe, Unknown, Value, join, same

_CONTENT = object()  # the slot of a change that replaced a container's whole content

Slot = tuple[int, Any]
Diff = dict[Slot, tuple[Any, Any, Value]]  # (id, key) -> (container, key, value at the end of that side)


class Heap:
    def __init__(self) -> None:
        self.journal: list[tuple[Any, Any, Value]] = []
        self.depth = 0  # open forks

    def set(self, container: dict[Any, Value], key: Any, value: Value) -> None:
        if self.depth:
            self.journal.append((container, key, container.get(key, ABSENT)))
        container[key] = value

    def delete(self, container: dict[Any, Value], key: Any) -> None:
        if self.depth:
            self.journal.append((container, key, container.get(key, ABSENT)))
        container.pop(key, None)

    def touch(self, container: Any) -> None:
        """Call before changing a container of the target in place."""
        if self.depth:
            self.journal.append((container, _CONTENT, container.copy()))

    def mark(self) -> int:
        self.depth += 1
        return len(self.journal)

    def release(self) -> None:
        self.depth -= 1
        if not self.depth:
            self.journal.clear()

    def capture(self, mark: int) -> Diff:
        """What changed since the mark, with the present values."""
        diff: Diff = {}
        for container, key, _old in self.journal[mark:]:
            slot = (id(container), _hashable(key))
            if slot not in diff:
                now = container.copy() if key is _CONTENT else container.get(key, ABSENT)
                diff[slot] = (container, key, now)
        return diff

    def undo(self, mark: int) -> None:
        journal = self.journal
        while len(journal) > mark:
            container, key, old = journal.pop()
            if key is _CONTENT:
                _refill(container, old)
            elif old is ABSENT:
                container.pop(key, None)
            else:
                container[key] = old

    def old_values(self, mark: int) -> Diff:
        """The values at the mark of all that changed since."""
        old: Diff = {}
        for container, key, value in self.journal[mark:]:
            old.setdefault((id(container), _hashable(key)), (container, key, value))
        return old

    def add_slot(self, diff: Diff, container: Any, key: Any, later: Diff) -> None:
        """Add a place to `diff` with its value at the time of `later`, the old values of what changed after it."""
        slot = (id(container), _hashable(key))
        if slot in later:
            diff[slot] = later[slot]
        elif slot not in diff:
            diff[slot] = (container, key, container.copy() if key is _CONTENT else container.get(key, ABSENT))

    def apply(self, diff: Diff) -> None:
        """Bring the places of a diff to its values."""
        for container, key, value in diff.values():
            if key is _CONTENT:
                self.touch(container)
                _refill(container, value)
            elif value is ABSENT:
                self.delete(container, key)
            else:
                self.set(container, key, value)

    def blur(self, mark: int, why: str) -> None:
        """Make all names and attributes that changed since the mark unknown."""
        for container, key, _old in self.old_values(mark).values():
            if key is not _CONTENT:
                self.set(container, key, Unknown(f"?{key}", why))

    def merge(self, other: Diff, mark: int, why: str) -> None:
        """Join the present state with that of another side, given by its diff from the same mark."""
        base = self.old_values(mark)
        places: Diff = {**base, **other}
        for slot, (container, key, _value) in places.items():
            if key is _CONTENT:
                theirs = other[slot][2] if slot in other else base[slot][2]
                joined = _join_content(container, theirs, why)
                if joined is not None:
                    self.touch(container)
                    _refill(container, joined)
                continue
            if (id(container), _CONTENT_SLOT) in places:
                continue
            now = container.get(key, ABSENT)
            theirs = other[slot][2] if slot in other else base[slot][2]
            if not same(now, theirs):
                self.set(container, key, join(now, theirs, why))


_CONTENT_SLOT = ("content",)


def _hashable(key: Any) -> Any:
    return _CONTENT_SLOT if key is _CONTENT else (type(key), key)


def _refill(container: Any, content: Any) -> None:
    if isinstance(container, list):
        container[:] = content
    else:
        container.clear()
        container.update(content)


def _join_content(now: Any, theirs: Any, why: str) -> Any:
    """The joined content of two versions of one container; None where they are the same."""
    if same(now, theirs):
        return None
    if isinstance(now, list):
        common = 0
        while common < min(len(now), len(theirs)) and same(now[common], theirs[common]):
            common += 1
        left, right = now[common:], theirs[common:]
        if len(left) == len(right):
            return now[:common] + [join(a, b, why) for a, b in zip(left, right, strict=True)]
        return now[:common] + [x if isinstance(x, Maybe) else Maybe(x, why) for x in [*left, *right]]
    if isinstance(now, dict):
        keys = list(now) + [k for k in theirs if k not in now]
        return {k: join(now.get(k, ABSENT), theirs.get(k, ABSENT), why) for k in keys}
    common_set = {x for x in now if x in theirs}
    return common_set | {Maybe(x, why) for x in (set(now) | set(theirs)) - common_set}
