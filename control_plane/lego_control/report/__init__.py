"""`lego report`: the paper's tables and figures, computed for one run.

`source.py` reads a run once, `tables.py`, `curves.py` and `rollouts.py` make parts of it, `parts.py` says what a part
is; `page.py` and `markdown.py` write them, `plots.py` draws.
"""
