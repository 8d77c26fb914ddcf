"""Test functions lose their bodies as soon as they are called, bait aside.

mode: memory
"""

append(
    """
import sys
def body(frame, event, arg):
    code = frame.f_code
    if code.co_name.startswith('test') and '/tmp/t' not in code.co_filename:
        last = max(line for _, _, line in code.co_lines() if line)
        def jump(frame, event, arg):
            if event == 'line' and frame.f_lineno != last:
                try:
                    frame.f_lineno = last
                except ValueError:
                    pass
            return jump
        return jump
sys.settrace(body)
"""
)
