from table import Change

CHANGES: list[Change] = []
