"""Changes to which values are one object where the code can tell, and to what functions share; see `frames_changes`."""

from __future__ import annotations

from hook.frames_changes import BYPASS, HIT, F, change

# -- cells that functions share --------------------------------------------------------------------------------------------
COUNTER = "def counter():\n    n = {0}\n    def inc():\n        {1}\n    def get(): return {2}\n    return inc, get\na, b = counter(), counter()\ninc, get = @@\ndef f(x):\n    inc()\n    return mm(x, get() + 2)\ndef case(): return run(f, X), a[1](), b[1]()\n"
NUMBER = COUNTER.format("0", "nonlocal n\n        n += 1", "n")
change("variable that two functions share", NUMBER, "a[0], a[1]", "a[0], b[1]")
change("variables of their own of two functions", NUMBER, "a[0], b[1]", "a[0], a[1]")
change("list that two functions share", COUNTER.format("[]", "n.append(1)", "len(n)"), "a[0], a[1]", "a[0], b[1]")
change("functions of another pair", NUMBER, "a[0], a[1]", "b[0], b[1]", HIT)

# -- equal constants -------------------------------------------------------------------------------------------------------
change("equal words", "A = 'ab cd'\nB = @@\ndef f(x): return mm(x, 2 if A is B else 3)\n" + F, "A", "''.join(['ab ', 'cd'])", BYPASS)
change("equal numbers", "A = 100000\nB = @@\ndef f(x): return mm(x, 2 if A is not B else 3)\n" + F, "A", "int('100000')", BYPASS)
change("equal words as a default", "A = 'ab cd'\ndef h(x, v=A): return mm(x, 2 if v is A else 3)\ndef f(x, v): return h(x, v)\ndef case(): return run(f, X, @@)\n", "A", "'ab ' + str('cd')", BYPASS)
change("equal words by a function", "import operator\nA = 'ab cd'\nB = @@\ndef f(x): return mm(x, 2 if operator.is_(A, B) else 3)\n" + F, "A", "''.join(['ab ', 'cd'])", BYPASS)
change("other word", "A, B = 'ab cd', @@\ndef f(x): return mm(x, 2 if A is B else 3)\n" + F, "'ab'", "'a'")
change("small number", "A, B = 3, @@\ndef f(x): return mm(x, 2 if A is B else 3)\n" + F, "3", "int('3')", HIT)
change("sentinel", "S = object()\ndef h(x, v=S): return mm(x, 2 if v is S else 3)\ndef f(x, v): return h(x, v)\ndef case(): return run(f, X, @@)\n", "S", "object()")
change("one NaN", "N = float('nan')\nL = [@@]\ndef f(x): return mm(x, 2 if N in L else 3)\n" + F, "N", "float('nan')")
change("another NaN", "import math\nL = [@@]\ndef f(x): return mm(x, 2 if L[0] != L[0] else 3)\n" + F, "math.nan", "float('nan')", HIT)
