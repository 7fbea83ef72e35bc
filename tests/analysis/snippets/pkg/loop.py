# ruff: noqa
from pkg.loop import spin
