"""What the help screen says: every key, by screen. The one place where keys are explained."""

from __future__ import annotations

GLOBAL = (
    ("1 … 8", "Fleet, Run, Step, Trajectory, Health, Sandboxes, Pool, Review"),
    ("enter / esc", "go in / go back"),
    ("j k, arrows, PgUp PgDn, Home End", "move; the mouse works too"),
    ("/", "filter the lines of this screen; !word leaves out; esc clears"),
    (":", "a command: :step 12, :metric entropy, :open s00012.g03.r5, :theme lego-light, :q"),
    ("ctrl+p", "command palette: everything by name"),
    (", .", "sort by the column before / after"),
    ("o", "turn the order around"),
    ("f", "follow the newest step, or stop following"),
    ("y", "copy the handle of what is selected"),
    ("T", "next theme: dark, light, high contrast, colour-blind-safe"),
    ("?", "this help"),
    ("ctrl+s", "ask the run to stop (only with --allow-control; asks for its name)"),
    ("q", "leave; the run goes on"),
)
PAGES = {
    "fleet": (
        ("space", "mark a run"),
        ("c", "compare marked runs"),
        ("p", "keep a run on top"),
        ("enter", "open"),
    ),
    "run": (
        ("← →", "move over the steps"),
        ("j k", "choose a metric"),
        ("g", "logarithmic axis"),
        ("x", "smooth: median of 5"),
        ("a", "read the findings in full"),
        ("enter", "open the step under the cursor"),
    ),
    "step": (
        ("[ ]", "step before / after"),
        ("z", "hide groups without variance"),
        ("w", "worst first"),
        ("enter", "siblings of a group, side by side"),
    ),
    "group": (
        ("enter", "read a rollout"),
        ("d", "its patch against the best sibling's"),
        ("[ ]", "group before / after"),
    ),
    "trajectory": (
        ("h l", "turn before / after"),
        ("H L", "sibling before / after"),
        ("t", "tokens: mask, log-probability, version, routes"),
        ("r", "show or hide thinking"),
        ("d", "patch, against the best sibling's"),
        ("i", "verdict: tests, findings, branches, timings"),
        ("n N", "next / previous hit of the search (/)"),
        ("e", "say what it is: a label, then why (only with --allow-control)"),
        ("E", "the same, and that its task should leave the pool"),
    ),
    "health": (
        ("enter", "show the metric of a finding"),
        ("a", "acknowledge a finding for this session"),
        ("b v e", "how to backtest, validate, export a report"),
    ),
    "sandboxes": (("enter", "open the rollout of a failure"),),
    "pool": (("enter", "open the newest group of a task"),),
    "review": (
        ("enter", "read the rollout; esc comes back to the queue"),
        ("e", "say what it is: a label, then why (only with --allow-control)"),
        ("E", "the same, and that its task should leave the pool"),
        ("z", "hide what is labelled, or show it again"),
    ),
}
TITLES = {
    "fleet": "Fleet", "run": "Run", "step": "Step", "group": "Group", "trajectory": "Trajectory", "health": "Health",
    "sandboxes": "Sandboxes", "pool": "Pool", "review": "Review", "compare": "Compare", "help": "Help",
}  # fmt: skip
