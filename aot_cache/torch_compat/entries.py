"""AOTAutograd's compiled results: taken apart before they are stored, brought to life after they were read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._guards import DuplicateInputs, StorageOverlap, TracingContext

from ..errors import NotSerializable
from .aot import Request

REBUILDERS = frozenset(
    {
        ("copyreg", "_reconstructor"),
        ("copyreg", "__newobj__"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_tensor_v3"),
        ("torch._utils", "_rebuild_parameter"),
        ("torch._tensor", "_rebuild_from_type_v2"),
        ("torch.serialization", "_get_layout"),
        ("torch.fx.graph_module", "reduce_graph_module"),
        ("torch.fx._lazy_graph_module", "reduce_lazy_graph_module"),
        ("torch._ops", "_unpickle"),
        ("torch._inductor.decomposition", "select_decomp_table"),
    }
)
"""Functions, by module and name, that rebuild parts of a pickled result."""
_TEXTS = {"text.joint": "aot_joint_graph_str", "text.forward": "aot_forward_graph_str"}
_TEXTS |= {"text.backward": "aot_backward_graph_str"}


def without_modes() -> Any:
    """A context in which no dispatch mode sees what is done to tensors."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def prepare(entry: Any) -> None:
    """Make a fresh result ready for serialisation, as torch does before its own save."""
    entry.pre_save()
    for graph in _graphs(entry).values():
        # Only a compile uses it, and to unpickle it would import all decompositions.
        if "get_decomp_fn" in (getattr(graph, "fx_kwargs", None) or {}):
            graph.fx_kwargs = {name: value for name, value in graph.fx_kwargs.items() if name != "get_decomp_fn"}


def kind(entry: Any) -> str:
    return "inference" if entry.compiled_bw is None else "training"


def guards(entry: Any) -> str | None:
    """The expression over the shapes of the inputs that must hold, or None."""
    return entry.guards_expr or None


def seconds(entry: Any) -> dict[str, float]:
    """Compile time by phase. torch does not time a bundled backward; the caller may know better."""
    forward, backward = entry.forward_time_taken_ns or 0, entry.backward_time_taken_ns or 0
    return {"forward": forward / 1e9, "backward": backward / 1e9}


def set_backward_seconds(entry: Any, value: float) -> None:
    entry.backward_time_taken_ns = int(value * 1e9)


def take_texts(entry: Any) -> dict[str, str]:
    """The readable graphs and generated code of an entry; the graphs are removed from it."""
    texts = {}
    for section, attribute in _TEXTS.items():
        if text := getattr(entry, attribute):
            texts[section] = text
            setattr(entry, attribute, None)
    for section, graph in _graphs(entry).items():
        if source := getattr(graph, "source_code", None):
            texts[f"text.source.{section}"] = source
    return texts


def put_texts(entry: Any, texts: Mapping[str, str]) -> None:
    for section, attribute in _TEXTS.items():
        if section in texts:
            setattr(entry, attribute, texts[section])


def sources(entry: Any) -> list[str]:
    """The Python code that Inductor generated, forward first."""
    return [code for graph in _graphs(entry).values() if (code := getattr(graph, "source_code", None))]


def graphs(entry: Any) -> list[Any]:
    """Inductor's compiled graphs, forward first."""
    return list(_graphs(entry).values())


def revive(entry: Any, request: Request) -> Any:
    """The callable that AOTAutograd would have returned; adds the entry's shape guards to the shape environment."""
    import torch._functorch._aot_autograd.autograd_cache as module

    return entry.wrap_post_compile(list(request.inputs), request.config, module.create_fx_config(request.extra))


def holds(expression: str, request: Request) -> bool:
    """Whether the shape guards of an entry hold for the request's inputs."""
    import torch._functorch._aot_autograd.autograd_cache as module
    from torch.fx.experimental.symbolic_shapes import guarding_hint_or_throw

    hints = [guarding_hint_or_throw(s) for s in module.AOTAutogradCache._filter_backed_symints(request.inputs)]
    return bool(module.AOTAutogradCache.evaluate_guards(expression, hints))


def rename_symbols(entry: Any, names: Mapping[str, str]) -> None:
    """Rename shape symbols, old to new, in what an entry says in terms of the first process's symbols."""
    changed = {old: new for old, new in names.items() if old != new}
    if not changed:
        return
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, changed)) + r")\b")
    for graph in _graphs(entry).values():
        strides = getattr(graph, "output_strides", None)
        if strides is not None:
            graph.output_strides = [
                None if row is None else tuple(pattern.sub(lambda m: changed[m[1]], str(text)) for text in row)
                for row in strides
            ]


def _graphs(entry: Any) -> dict[str, Any]:
    graphs = {"forward": entry.compiled_fw.result}
    if entry.compiled_bw is not None:
        graphs["backward"] = entry.compiled_bw.result
    return graphs


# While it compiles, AOTAutograd adds guards on how inputs alias; a hit must add them again.


def alias_guard_count() -> int:
    context = TracingContext.try_get()
    return 0 if context is None else len(context.guards_context.aotautograd_guards)


def alias_guards(since: int, sources: Sequence[Any]) -> list[list[Any]]:
    """Guards added after the first `since`, as plain data in terms of input positions.

    Raises:
        NotSerializable: a guard speaks of something that is not an input.
    """
    context = TracingContext.try_get()
    found = [] if context is None else context.guards_context.aotautograd_guards[since:]
    positions = {source: index for index, source in enumerate(sources) if source is not None}

    def at(source: Any) -> int:
        if source not in positions:
            raise NotSerializable(f"an alias guard on {source}, which is not an input of the graph")
        return positions[source]

    plain: list[list[Any]] = []
    for guard in found:
        if isinstance(guard, DuplicateInputs):
            plain.append(["duplicate", at(guard.input_source_a), at(guard.input_source_b)])
        elif isinstance(guard, StorageOverlap):
            plain.append(
                ["overlap", *([at(s) for s in g] for g in (guard.overlapping_sources, guard.non_overlapping_sources))]
            )
        else:
            raise NotSerializable(f"an alias guard of type {type(guard).__name__}")
    return plain


def add_alias_guards(plain: Sequence[Sequence[Any]], sources: Sequence[Any]) -> None:
    """Give Dynamo the guards that `alias_guards` took down."""
    context = TracingContext.try_get()
    if context is None or not plain:
        return
    for name, first, second in plain:
        if name == "duplicate":
            guard: Any = DuplicateInputs(sources[first], sources[second])
        else:
            guard = StorageOverlap([sources[i] for i in first], [sources[i] for i in second])
        context.guards_context.aotautograd_guards.append(guard)


# It may also specialise on a number that the graph reads from data (a NumPy scalar): such a symbol is no input of the
# graph, so that no stored guard can speak of it.


def shape_facts() -> tuple[int, frozenset[str]]:
    """How many shape guards there are now, and which symbols are replaced."""
    env = _shape_env()
    return (0, frozenset()) if env is None else (len(env.guards), frozenset(map(str, env.replacements)))


def require_no_hidden_guards(since: tuple[int, frozenset[str]], inputs: Mapping[str, str]) -> None:
    """Raises NotSerializable if, since `shape_facts()` was `since`, the compile assumed a value that is no input's."""
    env = _shape_env()
    if env is None:
        return
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    for guard in env.guards[since[0] :]:
        hidden = guard.expr.free_symbols - free_unbacked_symbols(guard.expr)
        if names := sorted(str(symbol) for symbol in hidden if str(symbol) not in inputs):
            raise NotSerializable(f"the compile assumed {guard.expr}, and {', '.join(names)} is no input of the graph")
    for symbol, value in env.replacements.items():
        if str(symbol) not in since[1] and str(symbol) not in inputs:
            raise NotSerializable(f"the compile assumed {symbol} == {value}, which is no input of the graph")


def _shape_env() -> Any:
    context = TracingContext.try_get()
    return None if context is None or context.fake_mode is None else context.fake_mode.shape_env


def graph_name(graph: torch.fx.GraphModule) -> str:
    """The class of the outermost module, or the function, that the graph was captured from."""
    for node in graph.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            owner = next(iter(stack.values()))[1]
            return owner if isinstance(owner, str) else owner.__qualname__
    for node in graph.graph.nodes:
        lines = [line for line in (node.meta.get("stack_trace") or "").splitlines() if line.strip().startswith("File ")]
        if lines:
            return lines[0].rsplit(" in ", 1)[-1].strip()
    return "graph"
