"""Names and sentence frames of the generated tasks: one vocabulary per split.

Invariant: no name and no frame stands in both splits, so a held-out task can only be solved by
reading it. The words that name an operation are shared: they are the language being tested.
Owns data only; `synth.py` combines it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One arithmetic operation a task may ask for."""

    word: str
    """The noun instructions name it by; also how a solution restates it."""
    operator: str
    """Python operator, as it stands between two spaces."""


OPERATIONS = (
    Operation(word="sum", operator="+"),
    Operation(word="difference", operator="-"),
    Operation(word="product", operator="*"),
    Operation(word="quotient", operator="//"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """What tasks of one split are made of."""

    verbs: tuple[str, ...]
    """First half of a function name."""
    nouns: tuple[str, ...]
    """Second half of a function name."""
    files: tuple[str, ...]
    """Module names, without suffix."""
    arguments: tuple[str, ...]
    frames: tuple[str, ...]
    """Sentences with the slots {file}, {function}, {left}, {right}, {word}."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TRAIN = Vocabulary(
    verbs=_words(
        "apply build calc combine compute derive eval figure find form gather handle join make merge mix "
        "pair process reduce resolve run settle solve tally work"
    ),
    nouns=_words(
        "amounts batch bill cells coins cost counts data entry figures fields items lengths load marks meters "
        "numbers orders pages parts points prices rates rows scores shares sizes steps terms units values"
    ),
    files=_words(
        "account basics billing budget cart core counter finance geometry inventory ledger lib maths metrics "
        "module orders pricing report sales shop stats store tools units utils wallet"
    ),
    arguments=_words(
        "a b x y m n left right first second one two lhs rhs head tail base step start end low high"
    ),
    frames=(
        "In {file}, {function} must return the {word} of {left} and {right}.",
        "{function} in {file} is wrong: it must return the {word} of its two arguments.",
        "Fix {file}: the result of {function} must be the {word} of {left} and {right}.",
        "The function {function} (see {file}) has to compute the {word} of {left} and {right}.",
        "Our tests say that {function} does not give the {word} of its inputs. Repair {file}.",
        "Please make {function} return the {word} of {left} and {right}. It lives in {file}.",
        "{file} has a bug. {function} was meant to give the {word} of its arguments.",
        "A call of {function} must give back the {word} of {left} and {right}; correct {file}.",
        "Bug report: {function} should yield the {word} of its two numbers. The code is in {file}.",
        "We expect the {word} from {function}, but {file} does something else.",
        "Somebody broke {function} in {file}. It returned the {word} of {left} and {right} before.",
        "Change {file} so that {function} gives the {word} of both arguments.",
        "The {word} of {left} and {right} is what {function} must return. Edit {file}.",
        "Let {function} return the {word} of its parameters {left} and {right} ({file}).",
        "{function} takes {left} and {right} and must return their {word}. Look into {file}.",
        "The documentation of {file} promises that {function} gives the {word} of its operands.",
        "When {function} is called, it must return the {word} of what it got; {file} gets this wrong.",
        "Correct the operator in {file}: users of {function} need the {word}.",
        "As specified, {function} returns the {word} of {left} and {right}. Make {file} do that.",
        "Wrong answer from {function}! It is supposed to be the {word} of {left} and {right}. See {file}.",
    ),
)

HELDOUT = Vocabulary(
    verbs=_words(
        "assess balance blend bring carry collect crunch draw fetch fold fuse get grade infer measure obtain "
        "operate perform produce rank take treat unify weigh supply"
    ),
    nouns=_words(
        "apples boxes bricks cards chairs crates days digits distances eggs flows goods hours inches joints keys "
        "layers miles nodes ounces pixels pounds quotas ratios seats signals tickets tokens volumes weights"
    ),
    files=_words(
        "algebra bakery cashier clinic depot engine farm garage harbor journal kitchen library market museum "
        "office physics planner quarry rental school studio survey travel vault"
    ),
    arguments=_words("p q u v alpha beta front back top bottom near far old new outer inner lower upper"),
    frames=(
        "Users complain about {function}. They want the {word} of {left} and {right}; {file} needs a change.",
        "Given {left} and {right}, {function} ought to answer with the {word}. Update {file}.",
        "Inside {file} you find {function}; its job is to deliver the {word} of both values.",
        "Make sure {file} is right: {function}({left}, {right}) equals the {word} of the two.",
        "What {function} returns is not the {word} of {left} and {right}, although it should be. File: {file}.",
        "Repair {function} from {file}. Expected outcome: the {word} of the given numbers.",
        "There is a mistake in {file}, since {function} never produces the {word} of {left} and {right}.",
        "I need {function} to hand back the {word} of {left} with {right}. You will find it in {file}.",
        "Ticket: {file} - the value of {function} has to equal the {word} of both operands.",
        "Customers reading {file} assume {function} provides the {word} of {left} and {right}. Make it true.",
        "Have a look at {file}. Its function {function} is expected to calculate a {word}.",
        "{left} and {right} go into {function}, and their {word} has to come out. Adjust {file}.",
    ),
)

VOCABULARIES = {"train": TRAIN, "heldout": HELDOUT}
