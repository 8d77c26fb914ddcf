"""Chat template and parser: a call that the template writes is the call that the parser reads."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground, Skip
from lego_control.validate.model import model_dir
from lego_harness.errors import LegoError
from lego_harness.proxy.render import Renderer


def run(ground: Ground) -> str:
    folder = model_dir(ground)
    if folder is None:
        raise Skip("the tiny policy is not built yet; it is proven when it is")
    try:
        renderer = Renderer.load(
            folder,
            max_model_len=ground.recipe.engine.max_model_len,
            template_options=ground.recipe.model.template_options,
        )
    except LegoError as error:
        raise Broken(str(error), "give the chat template the checkpoint was published with") from error
    return f"template and parser agree; replies begin behind {len(renderer.generation_prompt)} ids"
