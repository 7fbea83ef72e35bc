# ruff: noqa
from pkg.inner.base import *
from .views import wrap as resolving_view
