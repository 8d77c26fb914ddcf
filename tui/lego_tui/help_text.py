"""What the help screen says: every key, by screen. The one place where keys are explained."""

from __future__ import annotations

GLOBAL = (
    ("1 … 8", "Fleet, Run, Step, Trajectory, Health, Sandboxes, Pool, Review"),
    ("enter / esc", "go in / go back"),
    ("j k, arrows, PgUp PgDn, Home End", "move; the mouse works too"),
    ("/", "filter the lines of this screen; !word leaves out; esc clears"),
    (":", ":recipe, :step 12, :metric entropy, :open s00012.g03.r5, :theme lego-light, :q"),
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
    "trajectory, tokens": (
        ("ver", "policy version that sampled the token"),
        (
            "route",
            "whether experts were recorded; how many are the trainer's own is said above",
        ),
    ),
    "health": (
        ("enter", "look where a cause shows, or at a finding's metric, at the step it began"),
        ("a", "acknowledge a finding for this session"),
        ("b v e", "how to backtest, validate, export a report"),
    ),
    "sandboxes": (("enter", "open the rollout of a failure; esc comes back to the list"),),
    "pool": (("enter", "open the newest group of a task"),),
    "review": (
        ("enter", "read the rollout; esc comes back to the queue"),
        ("e", "say what it is: a label, then why (only with --allow-control)"),
        ("E", "the same, and that its task should leave the pool"),
        ("z", "hide what is labelled, or show it again"),
    ),
    "compare": (
        ("j k", "choose the metric of the chart"),
        ("esc", "back to the fleet, where space marks the runs"),
    ),
}
GLOSSARY = (
    ("watch / collapsed", "a detector warns / one that may stop a run has spoken"),
    ("no variance", "all siblings of a group earned the same: nothing is learned from it"),
    ("reward_mean, heldout", "mean reward of the step's rollouts; solved share of the newest evaluation"),
    ("pearson_r, mean_abs_dlogp, k3", "how far engine and trainer agree on sampled tokens: correlation and mean distance of log-probabilities, estimate of the KL divergence"),
    ("expert_overlap, top1_agreement", "share of replayed experts that the trainer's router would choose, of all and of the first"),
    ("lag.0, lag.1, …", "sampled tokens by how many versions older their weights were than those trained"),
    ("malformed, silent", "calls that could not be read; rollouts without a readable call"),
    ("acted.dominated", "rollouts of which one token is half"),
    ("acted.unearned", "rewards for no change, or for a patch that an integrity finding calls a cheat"),
    ("page_hinkley", "a test for a mean that has gone down: distances below it summed up, in standard deviations"),
    ("odd length", "far longer or shorter than the run's other rollouts"),
    ("policy warn / stop", "what the run's watchdog does about a collapse"),
    ("RO / CONTROL", "this display only looks / may ask runs to stop (--allow-control)"),
)  # fmt: skip
TITLES = {
    "fleet": "Fleet", "run": "Run", "step": "Step", "group": "Group", "trajectory": "Trajectory", "health": "Health",
    "sandboxes": "Sandboxes", "pool": "Pool", "review": "Review", "compare": "Compare",
    "recipe": "Recipe", "help": "Help",
}  # fmt: skip
