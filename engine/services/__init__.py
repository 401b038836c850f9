"""The services that jobs need on this host, and how commands reach those of a cluster."""
