"""Real models from transformers, small, with random weights: `models.py NAME train|infer`, prints JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from programs import count_code_generation, count_traced_frames, digest

Model = tuple[torch.nn.Module, dict[str, Any]]
_SMALL = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}


def gpt2(hf: Any) -> Model:
    config = hf.GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=256, n_positions=32, bos_token_id=0, eos_token_id=0)
    ids = torch.randint(0, 256, (2, 16))
    return hf.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def llama(hf: Any) -> Model:
    config = hf.LlamaConfig(**_SMALL, num_key_value_heads=2, vocab_size=256, max_position_embeddings=32)
    ids = torch.randint(0, 256, (2, 16))
    return hf.LlamaForCausalLM(config), {"input_ids": ids, "labels": ids, "use_cache": False}


def bert(hf: Any) -> Model:
    config = hf.BertConfig(**_SMALL, vocab_size=256, max_position_embeddings=32)
    return hf.BertForSequenceClassification(config), {
        "input_ids": torch.randint(0, 256, (2, 16)),
        "labels": torch.tensor([0, 1]),
    }


def vit(hf: Any) -> Model:
    config = hf.ViTConfig(**_SMALL, image_size=32, patch_size=8, num_labels=3)
    return hf.ViTForImageClassification(config), {
        "pixel_values": torch.randn(2, 3, 32, 32),
        "labels": torch.tensor([0, 1]),
    }


def resnet(hf: Any) -> Model:
    config = hf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", num_labels=3)
    return hf.ResNetForImageClassification(config), {
        "pixel_values": torch.randn(2, 3, 32, 32),
        "labels": torch.tensor([0, 1]),
    }


MODELS: dict[str, Callable[[Any], Model]] = {f.__name__: f for f in (gpt2, llama, bert, vit, resnet)}


_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec"}


def watch_processes() -> list[str]:
    """Every attempt of this process to start another one, from now on."""
    started: list[str] = []
    sys.addaudithook(lambda event, args: started.append(f"{event} {args[0]!r}") if event in _STARTS else None)
    return started


def why_not() -> list[str]:
    """What the cache says of everything that was no hit."""
    import aot_cache

    return [f"{event.kind} {event}" for event in aot_cache.events() if type(event).__name__ != "Hit"]


def main(name: str, mode: str) -> None:
    processes = watch_processes()

    import transformers

    import aot_cache

    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)  # sums over threads are not reproducible, with or without a cache
    generated, traced = count_code_generation(), count_traced_frames()
    torch.manual_seed(0)
    model, inputs = MODELS[name](transformers)
    model.train(mode == "train")
    compiled = torch.compile(model)
    torch.manual_seed(1)
    with torch.set_grad_enabled(mode == "train"):
        out = compiled(**inputs)
        if mode == "train":
            out.loss.backward()
    values = [out.loss, out.logits, [p.grad for p in model.parameters()], list(model.buffers())]
    done = {"values": digest(values), "generated": generated(), "traced": traced(), "processes": processes}
    print(json.dumps({**done, "why": why_not(), **aot_cache.stats()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
