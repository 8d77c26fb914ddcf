"""The forms in which checkpoints write tool calls; a template's form is the one that reads back what it writes."""
