"""The parts of tools/check-gpu: main.py reads the options, parts.py lists the parts, runner.py runs them."""
