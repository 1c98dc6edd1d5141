"""Meshes and placements of distributed tensors as plain values; only what is loaded already is looked at."""

from __future__ import annotations

import sys
from typing import Any

_PLACEMENTS = {
    "Replicate": (),
    "Shard": ("dim",),
    "_StridedShard": ("dim", "split_factor"),
    "Partial": ("reduce_op",),
}


def mesh_of(value: Any) -> Any:
    """The mesh that `value` is, or that AOTAutograd traces by it; None for anything else."""
    module = sys.modules.get("torch.distributed.device_mesh")
    if type(value).__module__ == "torch._library.fake_class_registry":
        value = getattr(value, "real_obj", None)
    return value if module is not None and type(value) is getattr(module, "DeviceMesh", None) else None


def described(value: Any) -> list[Any] | None:
    """What a compile reads of a mesh or of one of torch's own placements; None for anything else."""
    if (mesh := mesh_of(value)) is not None:
        return _mesh(mesh)
    module = sys.modules.get("torch.distributed.tensor.placement_types")
    name = type(value).__name__
    if module is None or name not in _PLACEMENTS or type(value) is not getattr(module, name, None):
        return None
    return [name, *(getattr(value, field) for field in _PLACEMENTS[name])]


def _mesh(mesh: Any) -> list[Any] | None:
    """Its ranks, which of them this process is, and its groups, whose names the generated code holds."""
    import torch.distributed as distributed

    if getattr(mesh, "_thread_id", None) is not None:  # ranks are threads of this process
        return None
    root = getattr(mesh, "_root_mesh", None)
    groups = list(getattr(mesh, "_dim_group_names", ()))
    world = [distributed.get_world_size(), distributed.get_rank()] if distributed.is_initialized() else []
    flattened = sorted(getattr(mesh, "_flatten_mapping", None) or ())
    return [
        "DeviceMesh",
        [mesh.device_type, mesh.mesh.tolist(), list(mesh.mesh_dim_names or ()), list(mesh.get_coordinate() or ())],
        [str(getattr(mesh, "_layout", "")), world, [[name, _backend(name)] for name in groups], flattened],
        None if root is None or root is mesh else _mesh(root),
    ]


def _backend(group: str) -> str:
    import torch.distributed as distributed
    from torch.distributed.distributed_c10d import _resolve_process_group

    return distributed.get_backend(_resolve_process_group(group))
