#!/bin/sh
# Runs a script with the Python that tests/run prepared, else with the system's.
exec "${TM_PYTHON:-python3}" "$@"
