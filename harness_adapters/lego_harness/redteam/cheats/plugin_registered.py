"""A plugin is registered with the pytest that runs.

mode: memory
"""

append(
    f"""
import gc, types, _pytest.config as c
module = types.ModuleType("evil")
exec({HOOK!r}, vars(module))
for config in [o for o in gc.get_objects() if type(o) is c.Config]:
    config.pluginmanager.register(module)
"""
)
