"""Small models for offloaded weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH = 192
ONE = WIDTH * WIDTH * 4
"""Bytes of one weight of a stack."""
TOKENS = torch.arange(8)


def stack(layers: int = 4) -> nn.Sequential:
    torch.manual_seed(layers)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers))).requires_grad_(False)


class Tied(nn.Module):
    """Uses its first weight again, last."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.body, self.head = nn.Embedding(WIDTH, WIDTH), stack(2), nn.Linear(WIDTH, WIDTH, bias=False)
        self.head.weight = self.embed.weight
        self.requires_grad_(False)

    def forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = self.head(self.body(self.embed(tokens)))
        return result
