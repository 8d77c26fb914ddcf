"""Does nothing at all.

mode: answers
"""

pass
