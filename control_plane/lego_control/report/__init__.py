"""`lego report`: the paper's tables and figures, computed for one run.

`source.py` reads a run once; `curves.py`, `rollouts.py` and `examples.py` make parts from it; `parts.py` defines what a
part is; `page.py` and `markdown.py` write them; `plots.py` draws.
"""
