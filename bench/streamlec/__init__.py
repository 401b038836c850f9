"""The five experiments of the StreamLEC paper (section V), and Riprap's additions to it, measured.

places.py      where jobs run: this host, or a cluster of network namespaces with shaped links
settings.py    schemes, algorithms, data sets, and the paper's own figures
statistics.py  medians and confidence intervals; figures.py draws them
expN_*.py      the experiments; attachment.py and stragglers.py measure what is ours
"""
