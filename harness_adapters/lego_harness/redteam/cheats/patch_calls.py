"""Calls of tests forget their exceptions.

mode: memory
"""

append(
    """
import _pytest.runner as r
real = r.CallInfo.from_call.__func__
def from_call(cls, func, when, reraise=None):
    call = real(cls, func, when, reraise)
    call.excinfo = None
    return call
r.CallInfo.from_call = classmethod(from_call)
"""
)
