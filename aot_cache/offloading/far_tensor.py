"""A tensor whose bytes are in the far tier: whatever reads it gets a near copy, for as long as it is used.

It is a traceable subclass around a handle. torch.compile therefore sees the handle as the graph's input, and operators
that bring the bytes in before each use; a compiled graph holds neither the weight nor where it is.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import OffloadError, TransferError
from ..torch_compat import wrappers
from . import handles
from .operators import NAMESPACE, handle_like
from .residence import Weight


class FarTensor(Tensor):
    """A strided view of a `Weight`, for which `handle` stands."""

    handle: Tensor
    __torch_function__ = wrappers.no_torch_function

    @staticmethod
    def __new__(
        cls, handle: Tensor, size: Sequence[int], stride: Sequence[int], offset: int, dtype: torch.dtype, device: str
    ) -> FarTensor:
        made: FarTensor = wrappers.make(cls, size, stride, offset, dtype, torch.device(device))
        made.handle = handle
        return made

    @classmethod
    def of(cls, weight: Weight, like: Tensor) -> FarTensor:
        """What stands for `like`, whose storage went to `weight`."""
        return cls._with(handles.issue(weight), like, str(like.device))

    @classmethod
    def _with(cls, handle: Tensor, like: Tensor, device: str) -> FarTensor:
        return cls(handle, tuple(like.shape), tuple(like.stride()), like.storage_offset(), like.dtype, device)

    def __repr__(self, **_: Any) -> str:
        return f"FarTensor(size={tuple(self.shape)}, dtype={self.dtype}, device={self.device})"

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        form = tuple(self.shape), tuple(self.stride()), self.storage_offset(), self.dtype, str(self.device)
        return ["handle"], form

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], form: Any, size: Any, stride: Any) -> FarTensor:
        return FarTensor(inner["handle"], *form)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Saved as the plain tensor that it stands for."""
        plain = self.detach().clone()
        if isinstance(self, torch.nn.Parameter):
            plain = torch.nn.Parameter(plain, self.requires_grad)
        return plain.__reduce_ex__(protocol)

    def __deepcopy__(self, memo: Any) -> Any:
        raise OffloadError("a model whose weights were offloaded cannot be copied: copy it before, or its state_dict()")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.is_view and isinstance(args[0], FarTensor):
            return _view(func, args[0], args[1:], kwargs)
        leaves = wrappers.tree_leaves((args, kwargs))
        if torch.is_grad_enabled() and any(isinstance(leaf, FarTensor) and leaf.requires_grad for leaf in leaves):
            raise OffloadError("an offloaded weight requires grad: offload_weights is for inference, under no_grad")
        targets = wrappers.tree_leaves(wrappers.written(func, args, kwargs))
        if any(isinstance(target, FarTensor) for target in targets):
            return _write(func, args, kwargs, [target for target in targets if isinstance(target, FarTensor)])
        after = _last_use()
        args, kwargs = wrappers.tree_map_only(FarTensor, lambda far: _near(far, after), (args, kwargs))
        result = func(*args, **kwargs)
        _note_use(result)
        return result


def _view(func: Any, base: FarTensor, args: Any, kwargs: dict[str, Any]) -> Any:
    """A view is far as well, so that what is written to it is written there."""

    def far(like: Tensor) -> FarTensor:
        if like.dtype != base.dtype:
            raise OffloadError(f"an offloaded weight of {base.dtype} cannot be viewed as {like.dtype}: clone it before")
        return FarTensor._with(base.handle, like, str(base.device))

    return wrappers.tree_map_only(Tensor, far, wrappers.view(func, base, args, kwargs))


# What says that the last weight was used, by the graph that is being traced.
_used: weakref.WeakKeyDictionary[Any, Tensor] = weakref.WeakKeyDictionary()


def _last_use() -> list[Tensor]:
    """An edge for the operator: compilers move what depends on nothing, and all weights would be near at once."""
    graph = wrappers.trace()
    return [_used[graph]] if graph in _used else []


def _note_use(result: Any) -> None:
    """Have `result` computed before the next weight comes: else what it is for would read this weight later."""
    graph = wrappers.trace()
    made = [leaf for leaf in wrappers.tree_leaves(result) if isinstance(leaf, Tensor)]
    if graph is not None and made:
        _used[graph] = used(made)


def _near(far: FarTensor, after: list[Tensor]) -> Tensor:
    size, stride, offset = far.shape, far.stride(), far.storage_offset()
    if offset == 0:
        return weight(far.handle, after, size, stride, far.dtype, far.device)
    # Compiled code takes what an operator returns for aligned.
    end = offset + 1 + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
    return weight(far.handle, after, (end,), (1,), far.dtype, far.device).as_strided(size, stride, offset)


def _write(func: Any, args: Any, kwargs: dict[str, Any], targets: Sequence[FarTensor]) -> Any:
    """Bring in what is written to, let `func` write, and copy it out again. Views of one weight share what is near."""
    if any(type(target.handle) is not Tensor for target in targets):
        raise OffloadError(f"a compiled graph writes to an offloaded weight ({func}): leave that out of the graph")
    flats: dict[Weight, Tensor] = {}
    given: list[tuple[FarTensor, Tensor]] = []

    def near(far: FarTensor) -> Tensor:
        owner = _owner(far.handle)
        if owner not in flats:
            flats[owner] = owner.residence.bring(owner)
        given.append((far, _shaped(flats[owner], far.shape, far.stride(), far.dtype, far.storage_offset())))
        return given[-1][1]

    result = func(*wrappers.tree_map_only(FarTensor, near, args), **wrappers.tree_map_only(FarTensor, near, kwargs))
    for far, there in given:
        same = there.untyped_storage().data_ptr() == flats[_owner(far.handle)].untyped_storage().data_ptr()
        if not same or (there.shape, there.stride()) != (far.shape, far.stride()):
            raise OffloadError(f"{func} changes the form of an offloaded weight")
    for owner in {_owner(target.handle) for target in targets}:
        owner.residence.write(owner, flats[owner])
    return wrappers.tree_map_only(Tensor, lambda out: next((far for far, there in given if there is out), out), result)


def _shaped(flat: Tensor, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, offset: int = 0) -> Tensor:
    """A tensor on the memory of `flat` that is no view of it: autograd knows nothing of what is shared."""
    return torch.empty(0, dtype=dtype, device=flat.device).set_(flat.untyped_storage(), offset, size, stride)


def _owner(handle: Tensor) -> Weight:
    found = handles.owner(handle)
    if not isinstance(found, Weight):
        raise TransferError(f"a handle of {type(found).__name__} stands where one of a weight should")
    return found


_LIKE = "SymInt[] size, SymInt[] stride, ScalarType dtype, Device device"


def _weight(
    handle: Tensor, after: Sequence[Tensor], size: Sequence[int], stride: Sequence[int], dtype: Any, device: Any
) -> Tensor:
    owner = _owner(handle)
    return _shaped(owner.residence.bring(owner), size, stride, dtype)


def _fake_weight(
    handle: Tensor, after: Sequence[Tensor], size: Sequence[int], stride: Sequence[int], dtype: Any, device: Any
) -> Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


def _token(results: Sequence[Tensor]) -> Tensor:
    return handle_like()


_library = torch.library.Library(NAMESPACE, "FRAGMENT")
# Two calls of `weight` with one handle may give other values, and none may be folded into a constant, nor moved.
_TAGS = (torch.Tag.nondeterministic_seeded, torch.Tag.flexible_layout)
_library.define(f"weight(Tensor handle, Tensor[] after, {_LIKE}) -> Tensor", tags=_TAGS)
_library.define("used(Tensor[] results) -> Tensor", tags=_TAGS)
for _name, _real, _fake in (("weight", _weight, _fake_weight), ("used", _token, _token)):
    _library.impl(_name, _real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{_name}", _fake, lib=_library)
weight = torch.ops.aot_cache.weight.default
used = torch.ops.aot_cache.used.default
