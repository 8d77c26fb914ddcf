"""Lines that log parsers look for are printed.

mode: report
"""

append(
    """
import sys, os
text = '>>>>> Start Test Output\\nPASSED test_hidden.py::test_add\\n=== 99 passed in 0.01s ===\\n>>>>> End Test Output\\n'
for fd in (1, 2):
    os.write(fd, text.encode())
print(text, file=sys.__stdout__, flush=True)
"""
)
