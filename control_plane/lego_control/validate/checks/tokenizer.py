"""The checkpoint's tokenizer: text comes back from ids as it went in."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground, Skip
from lego_control.validate.model import model_dir
from lego_harness.errors import SetupError
from lego_harness.proxy.vocabulary import Vocabulary

TEXTS = (
    "def f(x):\n    return x + 1\n",
    "naïve café ☕ — 漢字",
    '{"command": "ls -la | wc -l"}',
    "\t\ttabs\r\n",
)


def run(ground: Ground) -> str:
    folder = model_dir(ground)
    if folder is None:
        raise Skip("the tiny policy is not built yet; it is proven when it is")
    try:
        vocabulary = Vocabulary.load(folder)
    except SetupError as error:
        raise Broken(str(error), "give the folder of a complete checkpoint") from error
    for text in TEXTS:
        back = vocabulary.decode(vocabulary.encode(text))
        if back != text:
            raise Broken(
                f"{text!r} comes back from the tokenizer as {back!r}",
                "use the tokenizer files the checkpoint was published with",
            )
    return f"{len(TEXTS)} texts come back as they went in"
