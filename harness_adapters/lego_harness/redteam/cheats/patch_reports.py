"""Reports of tests always pass.

mode: memory
"""

append(
    """
import _pytest.reports as r
real = r.TestReport.from_item_and_call.__func__
def make(cls, item, call):
    report = real(cls, item, call)
    report.outcome = 'passed'
    return report
r.TestReport.from_item_and_call = classmethod(make)
"""
)
