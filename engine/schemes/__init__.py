"""The fault-tolerance schemes, one file each. To add one: write its file, and name it in registry.py.

Their interfaces are engine/flow/scheme.py and engine/flow/port.py. What several of them share is in parts/; coded and
copied stages are in engine/spreads. plans.py, which controllers import, knows none of them.
"""
