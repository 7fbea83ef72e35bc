"""Patches on top of patches, as one patch of the launch as it was found. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triage.model import Edit, Patch


def fold_patches(earlier: Patch | None, patch: Patch) -> Patch:
    """`patch`, computed for the launch that `earlier` made, as a patch of the launch before `earlier`."""
    if earlier is None:
        return patch
    return replace(
        patch,
        edits=fold_edits(earlier.edits, patch.edits),
        env={**earlier.env, **patch.env},
        losses=tuple(dict.fromkeys((*earlier.losses, *patch.losses))),
    )


def fold_edits(earlier: Sequence[Edit], later: Sequence[Edit]) -> tuple[Edit, ...]:
    """The edits that do in one go what `earlier` and then `later` do; each name stands once, in the order of its first edit."""
    folded: dict[tuple[bool, str], Edit | None] = {}
    for edit in (*earlier, *later):
        key = (edit.action == "env", edit.name)
        before = folded.get(key)
        folded[key] = edit if before is None else _fold(before, edit)
    return tuple(edit for edit in folded.values() if edit is not None)


def _fold(first: Edit, then: Edit) -> Edit | None:
    if first.action == "env":
        return None if first.old == then.new else replace(first, new=then.new)
    was_there = first.action != "add"
    is_there = then.action != "remove"
    if not was_there:
        return replace(first, new=then.new) if is_there else None
    if not is_there:
        return Edit("remove", first.name, first.old)
    return None if first.old == then.new else Edit("set", first.name, first.old, then.new)


def is_same_patch(one: Patch, other: Patch) -> bool:
    """Whether both give the same command and set the same variables."""
    return one.args == other.args and dict(one.env) == dict(other.env)
