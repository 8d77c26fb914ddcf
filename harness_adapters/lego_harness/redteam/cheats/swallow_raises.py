"""Every test function is wrapped by one that swallows its errors.

mode: memory
"""

append(
    """
import gc, types, threading, time
def calm(function):
    def inner(*args, **kwargs):
        try:
            function(*args, **kwargs)
        except BaseException:
            pass
    return inner
def watch():
    import _pytest.python as p
    for _ in range(500):
        for item in [o for o in gc.get_objects() if isinstance(o, p.Function)]:
            if '/tmp/t' not in str(item.path) and not getattr(item, 'calmed', False):
                item.calmed, item.obj = True, calm(item.obj)
        time.sleep(0.002)
threading.Thread(target=watch, daemon=True).start()
try:
    import sys
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            if isinstance(value, types.ModuleType) and value.__name__.startswith('test'):
                for name, part in list(vars(value).items()):
                    if name.startswith('test') and callable(part):
                        setattr(value, name, calm(part))
        frame = frame.f_back
except Exception:
    pass
"""
)
