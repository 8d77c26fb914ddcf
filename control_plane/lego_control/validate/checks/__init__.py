"""One check a file; `lego_control.validate.plan` says which run when."""
