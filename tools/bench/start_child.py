"""The child of the benchmark `start`: `start_child.py MODEL BACKEND` does one training step and prints JSON last.

BACKEND is a name for torch.compile, or `none` for the model as it is.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

# Modules beside this file must not be found instead of others of the same name.
sys.path.pop(0)

import torch  # noqa: E402


def gpt2() -> tuple[Any, dict[str, Any]]:
    import transformers

    size = {"vocab_size": 512, "n_positions": 64, "n_embd": 128, "n_layer": 12, "n_head": 4}
    config = transformers.GPT2Config(**size, use_cache=False, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # else transformers warns about it inside the graph, which breaks it
    tokens = torch.randint(512, (2, 64))
    return model, {"input_ids": tokens, "labels": tokens}


def mlp() -> tuple[Any, dict[str, Any]]:
    nn = torch.nn

    def block() -> Any:
        return nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 128))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(block() for _ in range(4))

        def forward(self, x: torch.Tensor) -> Any:
            for block in self.blocks:
                x = x + block(x)
            return (x.square().mean(),)

    return Model(), {"x": torch.randn(32, 128)}


def llama() -> tuple[Any, dict[str, Any]]:
    import transformers

    size = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = transformers.LlamaConfig(**size, num_key_value_heads=2, vocab_size=512, use_cache=False)
    tokens = torch.randint(512, (2, 64))
    return transformers.LlamaForCausalLM(config), {"input_ids": tokens, "labels": tokens}


MODELS = {"gpt2": gpt2, "llama": llama, "mlp": mlp}


def main(name: str, backend: str) -> None:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model.train()
    started = time.perf_counter()
    step = model if backend == "none" else torch.compile(model, backend=backend)
    loss = step(**inputs)[0]
    loss.backward()
    seconds = time.perf_counter() - started
    gradient = sum(parameter.grad.double().abs().sum().item() for parameter in model.parameters())
    print(json.dumps({"seconds": seconds, "loss": loss.item().hex(), "gradient": gradient.hex(), "counts": counts()}))


def counts() -> dict[str, int]:
    """What torch and the cache did in this process."""
    from torch._dynamo.utils import counters

    import aot_cache

    return {
        "graphs": counters["stats"]["unique_graphs"],
        "torch_hit": counters["aot_autograd"]["autograd_cache_hit"],
        "torch_miss": counters["aot_autograd"]["autograd_cache_miss"],
        "kernel_graphs": counters["inductor"]["fxgraph_cache_miss"],
        **aot_cache.stats(),
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
