# ruff: noqa
"""Shapes of control flow; the tests find the lines by their marks (`# at NAME`) and hold the guards worked out by hand."""


def chain(self, kind, size, names):
    if kind == "none":
        return
    elif kind == "plain":
        size = 1
    elif size < 0:
        raise ValueError(size)
    else:
        assert size != 13
    if size > 100:
        if names:
            return
        else:
            raise KeyError(names)
    with open(kind) as f:
        if not f:
            return
    if kind == "a":
        pass
    elif kind == "b":
        for name in ["x", "y"]:
            if name == size:
                continue
            try:
                size = int(name)
            except ValueError as e:
                raise TypeError(name) from e  # at handler
            else:
                if (
                    size > 3  # why
                    and kind
                ):
                    raise ValueError  # at loop
    else:
        raise ValueError(kind)  # at other


def search(self, names):
    while self.wait():
        pass
    for name in names:
        if name in self.known:
            return name
    for name in names:
        if name.old:
            break
    else:
        raise KeyError(names)  # at missing
    while True:
        if self.done:
            break
    raise ValueError  # at end


def cases(self, mode):
    match mode:
        case "x" | "y":
            return
        case 3 if self.three:
            return
        case None:
            raise ValueError  # at none
        case _:
            raise TypeError  # at any


def inside(self, a, b, c):
    x = a.size if a is not None and (b or c > 1) else c.size / b  # at ternary
    return [y.z for y in self.many if y > x and not y.closed]  # at made


def guarded(self):
    try:
        import missing
    except ImportError:
        raise RuntimeError("install it")
    finally:
        self.close()
    assert self.ready, "not ready"
    if (n := self.count) is None or n > 3:
        raise ValueError(n)  # at walrus
