import pkg.inner.base as base
from pkg.inner import Args, made, resolving_view


def handle(server_args: "ServerArgs", other):
    from pkg.inner.views import wrap

    cfg, view = resolving_view(server_args), 3
    again = server_args
    third = Args()
    third.check()
    return cfg, wrap, again, view, base


class ServerArgs:
    def __post_init__(self):
        return self


class Other:
    def run(self):
        return self


# ruff: noqa
