"""One check per file; `lego_control.validate.plan` says which run, and when."""
