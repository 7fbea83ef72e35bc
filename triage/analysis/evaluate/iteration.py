"""Builtins that walk containers: any, all, sorted, zip, min and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triage.analysis.evaluate.values import (
    ABSENT,
    Class,
    Instance,
    Maybe,
    TargetRaise,
    Unknown,
    Value,
    first_unknown,
    has_unknown,
    join,
    show,
)

if TYPE_CHECKING:
    from triage.analysis.evaluate.machine import Machine

Args = list[Value]
Named = dict[str, Value]


def unknown_of(name: str, args: Args) -> Unknown:
    one = first_unknown(args)
    return Unknown(f"{name}({', '.join(show(a) for a in args)})", one.why)


def run_any(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    if items is None:
        return unknown_of("any", args)
    return w.any_of(
        [
            Unknown(f"?{show(i.value)}", i.why) if isinstance(i, Maybe) and w.truth(i.value) is not False else w.bare(i)
            for i in items
        ]
    )


def run_all(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    if items is None:
        return unknown_of("all", args)
    unknown: Value = None
    for item in items:
        truth = w.truth(w.bare(item))
        if isinstance(item, Maybe) and truth is not True:
            truth = None
        if truth is False:
            return False
        if truth is None and unknown is None:
            unknown = w.bare(item)
    return (
        True
        if unknown is None
        else Unknown(f"all({show(unknown)})", unknown.why if isinstance(unknown, Unknown) else "not known")
    )


def collect(make: Callable[[list[Value]], Value], name: str) -> Callable[[Machine, Args, Named], Value]:
    def run(w: Machine, args: Args, named: Named) -> Value:
        items = w.iterate(args[0]) if args else []
        if items is None:
            return unknown_of(name, args)
        return w.native(make, items)

    return run


def extreme(pick: Callable[..., Any], name: str) -> Callable[[Machine, Args, Named], Value]:
    def run(w: Machine, args: Args, named: Named) -> Value:
        items = list(args) if len(args) > 1 else w.iterate(args[0])
        if items is None or has_unknown(items, 1):
            unknown = [a for a in (items or args) if isinstance(a, Unknown)]
            if len(unknown) == 1 and unknown[0].options and items is not None:
                fill, given = unknown[0], items
                return w.over_options(name, fill, lambda o: run(w, [o if a is fill else a for a in given], named))
            return unknown_of(name, args)
        items = [w.plain_of(i) for i in items]
        if "key" in named:
            return w.run_plain(lambda: pick(items, key=w.as_plain_callable(named["key"])), [], {})
        extra = {"default": named["default"]} if "default" in named else {}
        return w.native(pick, items, **extra)

    return run


def run_sorted(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    if items is None or has_unknown(items):
        return unknown_of("sorted", args)
    key = w.as_plain_callable(named["key"]) if named.get("key") is not None else None
    reverse = bool(named.get("reverse", False))
    return w.run_plain(lambda: sorted(items, key=key or w.plain_of, reverse=reverse), [], {})


def run_sum(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    if items is None or has_unknown(items):
        return unknown_of("sum", args)
    return w.native(sum, items, *args[1:])


def run_zip(w: Machine, args: Args, named: Named) -> Value:
    rows = [w.iterate(a) for a in args]
    known = [r for r in rows if r is not None]
    if len(known) < len(rows):
        return unknown_of("zip", args)
    return [tuple(w.bare(x) for x in row) for row in zip(*known, strict=False)]


def run_enumerate(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    if items is None:
        return unknown_of("enumerate", args)
    return [
        (i, w.bare(x)) for i, x in enumerate(items, int(named["start"] if "start" in named else args[1] if len(args) > 1 else 0))
    ]


def run_map(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[1])
    if items is None:
        return unknown_of("map", args)
    return [w.call(args[0], [w.bare(i)]) for i in items]


def run_filter(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[1])
    if items is None:
        return unknown_of("filter", args)
    out: list[Value] = []
    for item in items:
        truth = w.truth(w.bare(item) if args[0] is None else w.call(args[0], [w.bare(item)]))
        if truth is not False:
            out.append(item if truth is True else Maybe(w.bare(item), "depends on an unknown value"))
    return out


def run_reversed(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    return unknown_of("reversed", args) if items is None else items[::-1]


def run_range(w: Machine, args: Args, named: Named) -> Value:
    if has_unknown(args):
        return unknown_of("range", args)
    made = w.native(range, *(w.plain_of(a) for a in args))
    return made if isinstance(made, Unknown) or len(made) <= 1_000_000 else Unknown("?range", "too long to evaluate")


def run_next(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    if items is None:
        return unknown_of("next", args)
    if not items:
        if len(args) > 1:
            return args[1]
        raise TargetRaise(StopIteration, ())
    if isinstance(items[0], Maybe):
        merged: Value = args[1] if len(args) > 1 else Unknown("?next", items[0].why)
        for item in reversed(items):
            merged = join(w.bare(item), merged, items[0].why) if isinstance(item, Maybe) else item
        return merged
    return items[0]


def run_iter(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    return unknown_of("iter", args) if items is None else items


def run_len(w: Machine, args: Args, named: Named) -> Value:
    value = args[0]
    if isinstance(value, Instance):
        method = value.cls.lookup("__len__") if isinstance(value.cls, Class) else ABSENT
        if method is not ABSENT:
            return w.call(method, [value])
        return (
            run_len(w, [value.attrs["__items__"]], named)
            if "__items__" in value.attrs
            else Unknown(f"len({show(value)})", "not known")
        )
    if isinstance(value, Class) and value.kind == "enum":
        return len(value.options.get("members", []))
    if isinstance(value, Unknown):
        return w.over_options("len", value, lambda o: run_len(w, [o], {}))
    if isinstance(value, (list, dict)) and any(
        isinstance(v, Maybe) for v in (value.values() if isinstance(value, dict) else value)
    ):
        return unknown_of("len", args)
    return w.native(len, value)
