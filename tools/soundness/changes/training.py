"""Edits of an optimizer, a loss or a training step, as they are made between two runs."""

from __future__ import annotations

from table import other

ROW = "graph code"

OPTIMIZER = """
def run():
    torch.manual_seed(1)
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    net(torch.ones(2, 3)).sum().backward()
    torch.compile(optimizer.step)()
    yield [p.detach().clone() for p in net.parameters()]
"""

ADAM = """
def run():
    torch.manual_seed(1)
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=torch.tensor(0.1), betas=(0.9, 0.999), foreach=False)
    net(torch.ones(2, 3)).sum().backward()
    torch.compile(optimizer.step)()
    yield [p.detach().clone() for p in net.parameters()]
"""

CLIP = """
def step(x, w):
    g = torch.mm(x, w)
    norm = torch.linalg.vector_norm(g)
    return g * torch.clamp(0.5 / (norm + 1e-6), max=1.0)

def run():
    yield torch.compile(step)(torch.ones(3, 3), torch.ones(3, 3))
"""

EMA = """
DECAY = 0.99

@torch.no_grad()
def update(shadow, weights):
    for s, w in zip(shadow, weights):
        s.lerp_(w, 1 - DECAY)

def run():
    shadow, weights = [torch.zeros(3) for _ in range(2)], [torch.ones(3) for _ in range(2)]
    torch.compile(update)(shadow, weights)
    yield shadow
"""

LOSS = """
import torch.nn.functional as F

def run():
    x = torch.linspace(-1, 1, 12).reshape(4, 3).requires_grad_()
    step = torch.compile(lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, ignore_index=-100))
    loss = step(x, torch.tensor([0, 1, 2, 1]))
    loss.backward()
    yield loss
    yield x.grad
"""

NORM = """
import torch.nn as nn

def run():
    torch.manual_seed(1)
    net = nn.BatchNorm1d(2, momentum=0.1, eps=1e-5)
    x = torch.randn(4, 2)
    out = torch.compile(net)(x)
    out.sum().backward()
    yield out
    yield [b.clone() for b in net.buffers()]
"""

CHANGES = [
    other("learning_rate", ROW, OPTIMIZER, ("lr=0.1", "lr=0.2")),
    other("weight_decay", ROW, OPTIMIZER, ("0.01", "0.02")),
    other("nesterov", ROW, OPTIMIZER, ("momentum=0.9", "momentum=0.9, nesterov=True")),
    other("adam_betas", ROW, ADAM, ("0.9, ", "0.8, ")),
    other("adam_amsgrad", ROW, ADAM, ("foreach=False", "foreach=False, amsgrad=True"), equal=True),
    other("clip_norm", ROW, CLIP, ("0.5", "0.25")),
    other("decay", ROW, EMA, ("0.99", "0.9")),
    other("label_smoothing", ROW, LOSS, ("0.1", "0.2")),
    other("ignored_label", ROW, LOSS, ("-100", "1")),
    other("norm_momentum", ROW, NORM, ("momentum=0.1", "momentum=0.3")),
    other("norm_frozen", ROW, NORM, ("out = torch", "net.eval(); out = torch")),
]
