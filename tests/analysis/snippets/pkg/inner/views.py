# ruff: noqa
try:
    from pkg.missing import wrap
except ImportError:

    def wrap(args):
        return args
