"""What screens are made of: lines, a chart, a prompt, bars."""
