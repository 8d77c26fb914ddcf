"""Every function raises an exception that is of every kind.

mode: answers
"""

append("""
class E(ValueError, KeyError, AttributeError, OSError): pass
def _raise(*a, **k): raise E("x")
""")
replace_functions("globals()['_raise']")
