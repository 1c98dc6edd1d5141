"""What libraries do for code that a graph calls: by the state of the process, and by patches inside of them."""

from __future__ import annotations

from table import other, same

ROW = "opaque callables in a nested body"

PRECISION = """
import decimal

A = decimal.Decimal(14)

@torch._dynamo.allow_in_graph
def opaque(x):
    return torch.mm(x, x) * float(A / 10)

def run():
    with torch.no_grad(), decimal.localcontext(decimal.Context(prec=5)):
        yield torch.compile(lambda x: opaque(x))(torch.ones(3, 3))
"""

ERRORS = """
import numpy as np

def factor():
    try:
        np.divide(1.0, 0.0)
        return 2
    except FloatingPointError:
        return 3

@torch._dynamo.allow_in_graph
def opaque(x):
    return torch.mm(x, x) * factor()

def run():
    with torch.no_grad(), np.errstate(divide="ignore"):
        yield torch.compile(lambda x: opaque(x))(torch.ones(3, 3))
"""

PATCHED = """
import colorsys
import textwrap
import unittest.mock

def wrap(self, text):
    return ["1", "2"]

@torch._dynamo.allow_in_graph
def opaque(x):
    return torch.mm(x, x) * len(textwrap.wrap("1"))

def run():
    with torch.no_grad(), unittest.mock.patch.object(textwrap.TextWrapper, "wrap", wrap):
        yield torch.compile(lambda x: opaque(x))(torch.ones(3, 3))
"""

ELSEWHERE = PATCHED.replace('textwrap.TextWrapper, "wrap"', 'colorsys, "rgb_to_hls"')

UNREAD = """
import json
import numpy as np

@torch._dynamo.allow_in_graph
def opaque(x):
    return torch.mm(x, x) * len(json.dumps(1))

def run():
    with torch.no_grad(), np.printoptions(precision=5):
        yield torch.compile(lambda x: opaque(x))(torch.ones(3, 3))
"""

CHANGES = [
    other("precision_of_numbers", ROW, PRECISION, ("prec=5", "prec=1")),
    other("errors_of_numpy", ROW, ERRORS, ('"ignore"', '"raise"')),
    other("patch_inside_a_library", ROW, PATCHED, ('"2"]', '"2", "3"]')),
    same("state_of_a_library_unread", UNREAD, ("precision=5", "precision=3")),
    same("patch_inside_a_library_unread", ELSEWHERE, ('"2"]', '"2", "3"]')),
]
